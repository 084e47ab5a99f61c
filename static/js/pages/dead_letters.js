/** The dead letters of one group: look at them, and send one or all to the group again. */

import { consumeDialog } from "./consume_directly.js";
import { brokerPicker } from "../brokers.js";
import { dialog } from "../dialogs.js";
import { KeyedRows, cell, el, setText } from "../dom.js";
import { count, dateTime, isoTime, plural, visible } from "../text/format.js";
import { request, requestOfAll } from "../http.js";
import { messageHref, topicHref } from "../links.js";
import { bodyLine, deadText } from "../text/message_text.js";
import { t } from "../text/translate.js";

const PAGE = 50;
const QUEUE = 0; // a broker writes dead letters to this queue only
const BODY_BYTES = 400;
const MOST_ROWS = 1_000;

const group = document.body.dataset.group;
const topic = `%DLQ%${group}`;
const resendPath = `/groups/${encodeURIComponent(group)}/dead-letters/resend`;
const part = (name) => document.querySelector(`[data-part="${name}"]`);
const rows = new KeyedRows(part("rows"), { create, update: () => {} });
const list = { found: [], next: null, total: null, elsewhere: 0, most: null };
const consume = consumeDialog();
let wanted = { from: 0, to: 0 };

function create(message) {
  const origin = message.properties.RETRY_TOPIC ?? "";
  const tagAndKeys = [message.tag, ...message.keys].filter(Boolean).map(visible).join(" ");
  const tries = message.reconsume_times;
  const again = el("button", { type: "button", class: "button small", "aria-label": t("Send the dead letter at offset {0} again", message.queue_offset) }, t("Send again …"));
  again.addEventListener("click", () => preview(Number(message.queue_offset), Number(message.queue_offset) + 1));
  const now = el("button", { type: "button", class: "button small own-only", "aria-label": t("Have a client consume the dead letter at offset {0}", message.queue_offset) }, t("Consume …"));
  now.disabled = Boolean(message.problem);
  now.addEventListener("click", () => consume.open(message));
  return el("tr", { role: "row", "data-dead-letter": message.queue_offset },
    cell("quiet", isoTime(Number(message.store_time_ms)), dateTime(Number(message.store_time_ms))),
    el("td", { role: "cell", class: "num", "data-label": t("offset") }, count(message.queue_offset)),
    cell("mono long", origin, origin ? el("a", { href: topicHref(origin) }, origin) : t("unknown")),
    cell("reason-cell", null, deadText(tries, list.most)),
    cell("names-cell long", tagAndKeys, el("bdi", {}, tagAndKeys || "–")),
    cell("mono long body-cell", null, el("bdi", {}, message.problem ? t("damaged: {0}", message.problem) : bodyLine(message))),
    cell("mono long id-cell", null, el("a", { href: messageHref({ ...message, message_id: message.offset_message_id }) }, visible(message.message_id))),
    el("td", { role: "cell", class: "more-cell" }, again, now));
}

async function load() {
  const query = new URLSearchParams({ topic, limit: PAGE, max_body: BODY_BYTES });
  if (list.next !== null) query.set("before", list.next);
  part("older").disabled = true;
  try {
    const [answer, all, waiting] = await Promise.all([request("GET", `/messages?${query}`), request("POST", resendPath, { dry_run: true }),
      request("GET", `/groups/${encodeURIComponent(group)}/retries?limit=1&max_body=0`).catch(() => null)]);
    list.most = waiting?.retry_max_times ?? null;
    const letters = answer.messages.reverse().filter(({ queue_id: queue }) => queue === QUEUE);
    list.elsewhere += answer.messages.length - letters.length;
    list.found.push(...letters);
    Object.assign(list, { next: answer.next ?? null, total: Number(all.messages) });
    showProblem("");
  } catch (error) {
    if (error.status === 404 && !list.found.length) list.total = 0;
    else showProblem(error.message);
  }
  part("older").disabled = false;
  show();
}

function show() {
  const { found, next, total, elsewhere } = list;
  rows.show(found, (message) => `${message.broker} ${message.queue_offset}`);
  setText(part("count"), total === null ? t("unknown") : count(total));
  setText(part("elsewhere"), elsewhere ? plural(elsewhere, "{0} message in other queues of {1} is not shown: no broker puts dead letters there.", "{0} messages in other queues of {1} are not shown: no broker puts dead letters there.", topic) : "");
  part("elsewhere").hidden = !elsewhere;
  part("empty").hidden = total !== 0;
  part("older").hidden = next === null || found.length >= MOST_ROWS;
  part("resend-all").disabled = !total;
}

function showProblem(text) {
  setText(part("problem"), text);
  part("problem").hidden = !text;
}

async function preview(from, to) {
  try {
    const answer = await request("POST", resendPath, { from_offset: from, ...(to === null ? {} : { to_offset: to }), dry_run: true });
    wanted = { from, to: Number(answer.to_offset) };
    resend.open();
    setText(resend.part("summary"), plural(Number(answer.messages), "{0} message will be stored again for {1}.", "{0} messages will be stored again for {1}.", group));
    setText(resend.part("progress"), "");
  } catch (error) {
    showProblem(error.message);
  }
}

const resend = dialog("resend-dialog", {
  async submit(form, signal) {
    const task = wanted; // the next preview is another one
    let sent = 0;
    let leftOut = 0;
    while (task.from < task.to && !signal.aborted) {
      const answer = await request("POST", resendPath, { from_offset: task.from, to_offset: task.to });
      sent += Number(answer.messages);
      leftOut += answer.left_out;
      task.from = Number(answer.next_offset); // after an error the next press continues here
      if (!signal.aborted) setText(resend.part("progress"), plural(sent, "{0} message sent …", "{0} messages sent …"));
    }
    const missing = leftOut ? plural(leftOut, " {0} message could not be read and was left out.", " {0} messages could not be read and were left out.") : "";
    const stopped = task.from < task.to ? plural(task.to - task.from, " You stopped at offset {1}; {0} message was not sent.", " You stopped at offset {1}; {0} messages were not sent.", count(task.from)) : "";
    setText(part("note"), `${plural(sent, "{0} message was sent to {1} again.", "{0} messages were sent to {1} again.", group)}${missing}${stopped}`);
    part("note").hidden = false;
  },
});

part("resend-all").addEventListener("click", () => preview(0, null));
part("older").addEventListener("click", load);
document.addEventListener("outage-over", () => { if (list.total === null) load(); });
brokerPicker(part, (path) => requestOfAll("GET", path), { all: false });
load();
