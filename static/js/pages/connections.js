/** The Connections page. */

import { isAttached } from "./attached.js";
import { count } from "../text/format.js";
import { request } from "../http.js";
import { startPage } from "../page.js";
import { sum } from "../text/explain_group.js";
import { clientEventsPanel } from "../panels/client_events.js";
import { clientsPanel } from "../panels/clients.js";
import { t } from "../text/translate.js";

const number = (value) => (value === null ? null : Number(value));

/** The answer with its 64-bit integers as numbers. */
function parse(answer) {
  return { ...answer, clients: answer.clients.map((client) => ({ ...client, connected_at_ms: number(client.connected_at_ms),
    last_heartbeat_ms: number(client.last_heartbeat_ms) })) };
}

function figures({ clients, total }) {
  const of = (protocol) => clients.filter((client) => client.protocol === protocol).length;
  if (isAttached) return [[t("members"), count(total), t("Clients that the broker lists as members of consumer groups")]];
  return [
    [t("connected"), count(total), t("Open connections")],
    [t("RocketMQ clients"), count(of("remoting")), t("Connections over RocketMQ's remoting protocol")],
    ["WebSockets", count(of("websocket")), t("Connections to /ws/v1/consumer")],
    [t("in a group"), count(clients.filter((client) => client.consumer_groups.length).length), t("Connections that are members of a consumer group")],
    [t("held pulls"), count(sum(clients, "holds")), t("Pulls of these clients in the pullRequestTable")],
  ];
}

startPage({
  ask: async () => parse(await request("GET", "/clients?limit=1000")), figures,
  panels: [clientsPanel(), clientEventsPanel()],
});
