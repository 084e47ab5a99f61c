/** A dialog on the page of a group: what its clients answer when somebody asks them. */

import { el, setText } from "../../dom.js";
import { count } from "../../text/format.js";
import { serverNow } from "../../clock.js";
import { request } from "../../http.js";
import { askedText, clientsOf, stacksText } from "../../text/running_info.js";
import { t } from "../../text/translate.js";

/** `ask(client)` asks all members, or one of them with the stacks of its threads. */
export function runningInfo(group) {
  const box = document.getElementById("running-info-dialog");
  const part = (name) => box.querySelector(`[data-part="${name}"]`);
  const path = `/groups/${encodeURIComponent(group)}/running-info`;
  let asking = 0;

  async function ask(client = "") {
    const mine = ++asking;
    show({ note: t("Asking …") });
    part("again").hidden = !client;
    if (!box.open) box.showModal();
    try {
      const answer = await request("GET", client ? `${path}?client=${encodeURIComponent(client)}&stacks=true` : path);
      if (mine !== asking) return;
      const clients = clientsOf(answer, serverNow());
      show({ note: askedText(answer), rows: clients.map((one) => clientRow(one, Boolean(client))),
        empty: clients.length ? "" : t("No member of the group is online.") });
    } catch (error) {
      if (mine === asking) show({ problem: error.message });
    }
  }

  function show({ note = "", problem = "", rows = [], empty = "" }) {
    setText(part("note"), note || empty);
    if (note && empty) setText(part("note"), `${empty} (${note})`);
    setText(part("problem"), problem);
    part("problem").hidden = !problem;
    part("clients").replaceChildren(...rows);
  }

  function clientRow(client, isAlone) {
    const threads = el("button", { type: "button", class: "button small" }, t("Threads"));
    threads.addEventListener("click", () => ask(client.id));
    const head = el("div", { class: "running-head" }, el("h3", { class: "mono" }, client.id), ...(isAlone || client.problem ? [] : [threads]));
    const row = el("section", {}, head, el("p", { class: "quiet" }, client.about));
    if (client.problem) row.append(el("p", { class: "dialog-problem" }, client.problem));
    else if (client.queues.length) row.append(queueTable(client.queues));
    else row.append(el("p", { class: "quiet" }, t("It has no queue of these brokers.")));
    if (isAlone && !client.problem) {
      row.append(client.stacks ? el("pre", { class: "stacks", tabindex: "0", role: "region", "aria-label": t("Stacks of its threads") }, stacksText(client.stacks))
        : el("p", { class: "quiet" }, t("It gave no stacks: only RocketMQ's Java client has them.")));
    }
    return row;
  }

  function queueTable(queues) {
    const names = [t("queue"), t("not consumed"), t("not committed"), t("last consumed"), t("last pull")];
    return el("div", { class: "running-scroll", tabindex: "0", role: "region", "aria-label": t("Queues of the client, scrollable") },
      el("table", { class: "rows running-table" }, el("thead", {}, el("tr", {}, ...names.map((name, place) => el("th", { scope: "col", class: place ? "num" : null }, name)))),
        el("tbody", {}, ...queues.map((queue) => el("tr", { "data-problem": queue.cached > 0 && queue.handed > 0 },
          el("td", { class: "mono" }, queue.place, ...(queue.locked ? [" ", el("span", { class: "lock" }, t("locked"))] : [])),
          ...[count(queue.cached), count(queue.handed), queue.consumed, queue.pulled].map((text, place) =>
            el("td", { class: "num", "data-label": names[place + 1] }, text)))))));
  }

  part("again").addEventListener("click", () => ask());
  part("close").addEventListener("click", () => box.close());
  box.addEventListener("close", () => { asking += 1; });
  for (const opener of document.querySelectorAll("[data-asks-members]")) opener.addEventListener("click", () => ask());
  return ask;
}
