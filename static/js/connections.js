/** The page of the connections. */

import { count } from "./format.js";
import { request } from "./http.js";
import { startPage } from "./page.js";
import { sum } from "./explain_group.js";
import { clientEventsPanel } from "./panels/client_events.js";
import { clientsPanel } from "./panels/clients.js";

const number = (value) => (value === null ? null : Number(value));

/** The answer with its 64-bit numbers as numbers. */
function read(answer) {
  return { ...answer, clients: answer.clients.map((client) => ({ ...client, connected_at_ms: number(client.connected_at_ms),
    last_heartbeat_ms: number(client.last_heartbeat_ms) })) };
}

function figures({ clients, total }) {
  const of = (protocol) => clients.filter((client) => client.protocol === protocol).length;
  return [
    ["connected", count(total), "Open connections"],
    ["RocketMQ clients", count(of("remoting")), "Connections that speak RocketMQ's protocol"],
    ["WebSockets", count(of("websocket")), "Connections to /ws/v1/consumer"],
    ["in a group", count(clients.filter((client) => client.consumer_groups.length).length), "Connections that are members of a consumer group"],
    ["held pulls", count(sum(clients, "holds")), "Their rows of the pullRequestTable"],
  ];
}

startPage({
  ask: async () => read(await request("GET", "/clients?limit=1000")), figures,
  panels: [clientsPanel(), clientEventsPanel()],
});
