/** The page of one held pull: whose it is, why it waits, and what happened to it. */

import { el, setText } from "../dom.js";
import { dateTime, isoTime, seconds, visible } from "../text/format.js";
import { aboutHold, ownerOf, stepsOfHold } from "../text/hold_time_line.js";
import { request } from "../http.js";
import { clientHref, groupHref, messagesHref, topicHref } from "../links.js";
import { Poller } from "../poll.js";
import { queueKey } from "../reducer.js";
import { t } from "../text/translate.js";

const EVERY_MS = 2_000;
const MOST_STEPS = 200;
const id = document.body.dataset.hold;
const part = (name) => document.querySelector(`[data-part="${name}"]`);

function show(timeline) {
  const { hold, complete, broker } = timeline;
  const owner = ownerOf(timeline);
  const steps = stepsOfHold(timeline);
  setText(part("about"), aboutHold(timeline));
  const link = (href, text) => el("a", { href }, visible(text));
  const facts = [[t("broker"), broker], [t("topic"), owner.topic && link(topicHref(owner.topic), owner.topic)],
    [t("queue"), owner.topic && queueKey(owner.topic, owner.queue_id)],
    [t("group"), owner.group && link(groupHref(owner.group), owner.group)],
    [t("client"), owner.client_id && (owner.protocol === "http" ? visible(owner.client_id) : link(clientHref(owner.client_id), owner.client_id))],
    [t("protocol"), owner.protocol], [t("filter"), owner.filter !== undefined && (visible(owner.filter) || "*")],
    [t("held since"), hold && dateTime(Number(hold.suspended_at_ms))],
    [t("maximum hold time"), hold && seconds(Number(hold.deadline_ms) - Number(hold.suspended_at_ms))],
    [t("messages"), owner.topic && link(messagesHref(owner.topic), t("those of the topic"))]];
  part("facts").replaceChildren(...facts.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  part("steps").replaceChildren(...steps.slice(-MOST_STEPS).map(({ at, word, tone, text }) => el("li", { "data-step": word, "data-tone": tone },
    el("span", { class: "step-time mono", title: isoTime(at) }, dateTime(at)), el("span", { class: "chip", "data-tone": tone }, word),
    el("span", { class: "step-text" }, visible(text)))));
  setText(part("note"), [steps.length > MOST_STEPS ? t("the last {0} of {1} steps", MOST_STEPS, steps.length) : "",
    complete ? "" : t("not all of its events are kept, so steps are missing")].filter(Boolean).join(t("; ")));
  part("content").hidden = false;
}

function showProblem(text) {
  setText(part("problem"), text);
  part("problem").hidden = !text;
}

let last = null;

new Poller({
  /** A hold that has ended does not change any more, and its events are soon forgotten. */
  ask: async () => (last?.hold === null ? last : request("GET", `/holds/${id}/timeline`)),
  everyMs: EVERY_MS,
  onAnswer(timeline) {
    if (timeline === last) return;
    last = timeline;
    showProblem("");
    show(timeline);
  },
  onError(error) {
    setText(part("about"), ""); // whether it is still held is not known
    showProblem(error.status === 404
      ? t("Nothing is known about hold {0}. A busy broker keeps its events for some seconds only, and a broker that is started again numbers its holds from 1.", id)
      : error.message);
  },
}).start();
