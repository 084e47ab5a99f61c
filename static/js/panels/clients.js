/** Open connections: client, type, address and groups. */

import { isAttached } from "../pages/attached.js";
import { KeyedRows, cell, el, panel, setText } from "../dom.js";
import { count, span } from "../text/format.js";
import { clientKind, heartbeat } from "../text/explain_group.js";
import { groupHref } from "../links.js";
import { byText, showLeftOut, tableChoice } from "./sorting.js";
import { t } from "../text/translate.js";

const byName = (a, b) => byText(a.client_id, b.client_id) || byText(a.remote, b.remote);
const SORTS = {
  client: byName,
  kind: (a, b) => byText(clientKind(a), clientKind(b)) || byName(a, b),
  remote: (a, b) => byText(a.remote, b.remote) || byName(a, b),
  holds: (a, b) => a.holds - b.holds || byName(a, b),
  heartbeat: (a, b) => (b.last_heartbeat_ms ?? 0) - (a.last_heartbeat_ms ?? 0) || byName(a, b),
  connected: (a, b) => b.connected_at_ms - a.connected_at_ms || byName(a, b),
};
const MOST_GROUPS = 4;

export function clientsPanel() {
  const { root, part } = panel("clients");
  const rows = new KeyedRows(part("rows"), { create, update });
  const choice = tableChoice({ root, part, sorts: SORTS, first: "client", changed: () => latest && render(latest),
    textOf: (client) => [client.client_id, clientKind(client), client.remote, client.protocol, client.broker,
      ...client.consumer_groups, ...client.producer_groups].join(" ") });
  let latest = null;
  const requestedClient = new URLSearchParams(location.search).get("client");
  if (requestedClient) choice.filter(requestedClient);

  function create(client) {
    const parts = {
      kind: cell("kind-cell", null),
      groups: el("td", { role: "cell", class: "groups-cell" }),
      holds: el("td", { role: "cell", class: "num holds-cell", "data-label": t("holds") }),
      heartbeat: el("td", { role: "cell", class: "num heartbeat-cell", "data-label": t("heartbeat") }),
      connected: el("td", { role: "cell", class: "num quiet connected-cell", "data-label": t("connected") }),
    };
    const row = el("tr", { role: "row", "data-client": client.client_id },
      cell("mono client-cell long", client.client_id, client.client_id || t("not identified yet")), parts.kind,
      cell("mono quiet remote-cell", client.remote, client.remote || "–"),
      parts.groups, parts.holds, parts.heartbeat, parts.connected);
    row.parts = parts;
    return row;
  }

  function update(row, client) {
    row.client = client;
    setText(row.parts.kind, clientKind(client));
    setText(row.parts.holds, count(client.holds));
    const shown = JSON.stringify([client.consumer_groups, client.producer_groups]);
    if (row.shownGroups !== shown) {
      row.shownGroups = shown;
      row.parts.groups.replaceChildren(...groupsOf(client));
    }
    showTimes(row);
  }

  function showTimes(row) {
    const { now } = latest;
    const beat = heartbeat(row.client, now);
    setText(row.parts.heartbeat, beat.text);
    row.parts.heartbeat.dataset.tone = beat.tone;
    setText(row.parts.connected, now === null || row.client.connected_at_ms === null ? t("unknown") : span(now - row.client.connected_at_ms));
  }

  function render(view) {
    latest = view;
    if (view.answer === null) return;
    const { clients, total } = view.answer;
    const { shown, matching } = choice.of([...clients]);
    rows.show(shown, (client) => `${client.broker} ${client.remote} ${client.client_id} ${client.connected_at_ms}`);
    setText(part("count"), `${count(total)} ${isAttached ? t("known as members of groups") : t("connected")}${unavailableText(view.answer)}`);
    showLeftOut(part("left-out"), { shown: shown.length, matching, total, all: isAttached ? t("all known members are shown") : t("all connections are shown") });
    part("empty").hidden = matching > 0;
    setText(part("empty-title"), total ? t("No connection matches this filter.") : isAttached ? t("No member of a group is known.") : t("No client is connected."));
  }

  return {
    render,
    tick(view) {
      latest = view;
      for (const row of rows.rows.values()) showTimes(row);
    },
  };
}

/** Names the brokers that did not answer: their entries are missing. */
export const unavailableText = ({ unavailable }) => (unavailable?.length ? t("; {0} did not answer", unavailable.join(t(", "))) : "");

function groupsOf(client) {
  const links = client.consumer_groups.slice(0, MOST_GROUPS).map((group) => el("a", { href: groupHref(group) }, group));
  const more = client.consumer_groups.length - links.length;
  if (more > 0) links.push(el("span", { class: "quiet" }, t("and {0} more", count(more))));
  const producers = client.producer_groups.filter((group) => group !== "CLIENT_INNER_PRODUCER");
  if (producers.length) links.push(el("span", { class: "quiet", title: producers.join(t(", ")) }, t("producer: {0}", producers.slice(0, MOST_GROUPS).join(t(", ")))));
  return links.length ? links : [el("span", { class: "quiet" }, "–")];
}
