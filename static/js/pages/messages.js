/** The search for messages: by topic and time range, by key, or by id. */

import { KeyedRows, cell, el, setText } from "../dom.js";
import { count, dateTime, isoTime, plural, visible } from "../text/format.js";
import { askServerTime, request, requestOfAll } from "../http.js";
import { messageHref } from "../links.js";
import { bodyLine } from "../text/message_text.js";
import { queueKey } from "../reducer.js";
import { newMessages, readAddress, writeAddress, writeQuery } from "../search_state.js";
import { t } from "../text/translate.js";

const PAGE = 50;
const BODY_BYTES = 400;
const MOST_ROWS = 1_000;
const MOST_TOPICS = 2_000;
const OFFERED_TOPICS = 12;
const FOLLOW_MS = 1_000;
const FOLLOW_PAGE = 64;
const FOLLOW_PAGES = 4;

const part = (name) => document.querySelector(`[data-part="${name}"]`);
const form = document.querySelector('[data-panel="search"]');
const rows = new KeyedRows(part("rows"), { create, update: () => {} });
/** `following`: the timer that asks for new messages. `isCut`: messages came that the list has not. `isAnswered`: until
 * then nobody knows whether there are messages. */
const search = { number: 0, query: null, found: [], next: null, leftOut: 0, isCut: false, isAnswered: false, following: null };

const labelled = (kind, label, text) => el("td", { role: "cell", class: kind, "data-label": label }, text);

const idOf = (message) => `${message.broker} ${message.offset_message_id}`;
const tagAndKeysOf = (message) => [message.tag, ...message.keys].filter(Boolean).map(visible).join(" ");

/** Whether a part of the row contains the text, in any case of letters. */
function contains(message, text) {
  const where = queueKey(message.topic, message.queue_id);
  const parts = [where, tagAndKeysOf(message), message.problem || bodyLine(message), message.message_id];
  return parts.some((shown) => shown.toLowerCase().includes(text));
}

function create(message) {
  const tagAndKeys = tagAndKeysOf(message);
  const where = queueKey(message.topic, message.queue_id);
  return el("tr", { role: "row", "data-message-row": message.message_id },
    cell("quiet", isoTime(Number(message.store_time_ms)), dateTime(Number(message.store_time_ms))),
    cell("mono long", where, where), labelled("num", t("offset"), count(message.queue_offset)),
    cell("names-cell long", tagAndKeys, el("bdi", {}, tagAndKeys || "–")),
    cell("mono long body-cell", null, el("bdi", {}, message.problem ? t("damaged: {0}", message.problem) : bodyLine(message))),
    labelled("num quiet", t("bytes"), count(message.body_size ?? message.size)),
    cell("mono long id-cell", null, el("a", { href: messageHref(message) }, visible(message.message_id || message.offset_message_id))));
}

/** The fields as the parameters of the API; throws an Error that says what is missing. */
function queryOf({ topic, key, last, from, to, broker }, nowMs) {
  if (!topic) throw new Error(t("Enter a topic: messages are searched in one topic. Only an id is looked for everywhere."));
  const query = new URLSearchParams({ topic, limit: PAGE, max_body: BODY_BYTES });
  if (key) query.set("key", key);
  if (broker) query.set("broker", broker);
  if (last === "custom") {
    const [begin, end] = [from, to].map((text) => (text ? new Date(text).getTime() : null));
    if (begin !== null && end !== null && begin > end) throw new Error(t("The time range ends before it begins."));
    if (begin !== null) query.set("begin_ms", begin);
    if (end !== null) query.set("end_ms", end + 999); // the field has whole seconds
  } else if (last) {
    query.set("begin_ms", nowMs - Number(last) * 1000);
  }
  return query;
}

/** Searches with the form's fields. An id has a page of its own: `isLink` leaves no step back to this one. */
async function begin({ isLink = false } = {}) {
  const fields = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
  if (fields.id) {
    location[isLink ? "replace" : "assign"](messageHref({ message_id: fields.id, topic: fields.topic }) + brokerOf(fields));
    return;
  }
  clear();
  show();
  const asked = search.number;
  try {
    const nowMs = fields.last ? await askServerTime() : 0;
    if (asked !== search.number) return;
    search.query = queryOf(fields, nowMs);
    await load();
  } catch (error) {
    showProblem(error.message);
  }
  if (isLink && new URLSearchParams(location.search).has("follow")) follow(true); // which asks again after a failure
}

/** Forgets the search, and stops to follow its topic. */
function clear() {
  follow(false);
  Object.assign(search, { number: search.number + 1, query: null, found: [], next: null, leftOut: 0, isCut: false, isAnswered: false });
}

const canFollow = () => search.query !== null && !search.query.has("key") && !search.query.has("end_ms");

/** Adds new messages every second, until it is called with `false`. */
function follow(isOn) {
  const wanted = isOn && canFollow();
  clearTimeout(search.following);
  search.following = wanted ? setTimeout(addNew, FOLLOW_MS) : null;
  part("follow").setAttribute("aria-pressed", String(wanted));
  setText(part("follow"), wanted ? t("Pause") : t("Follow"));
  if (search.query !== null) writeQuery({ follow: wanted ? "1" : "" });
}

async function addNew() {
  const asked = search.number;
  try {
    const fresh = document.hidden ? [] : await readNew();
    if (asked !== search.number) return;
    search.found.unshift(...fresh);
    search.isCut ||= search.found.length > MOST_ROWS;
    search.found.length = Math.min(search.found.length, MOST_ROWS);
    showProblem("");
    show();
  } catch (error) {
    if (asked !== search.number) return;
    showProblem(error.message);
  }
  if (search.following !== null) search.following = setTimeout(addNew, FOLLOW_MS);
}

/** The messages that are newer than the list, the newest first: up to FOLLOW_PAGES pages of them. */
async function readNew() {
  const asked = search.number;
  const known = new Set(search.found.map(idOf));
  const query = new URLSearchParams(search.query);
  query.set("limit", FOLLOW_PAGE);
  const fresh = [];
  for (let page = 0; page < FOLLOW_PAGES; page += 1) {
    const { messages, next } = await requestOfAll("GET", `/messages?${query}`);
    if (asked === search.number) search.isAnswered = true;
    const added = newMessages(messages.reverse(), known, idOf);
    fresh.push(...added);
    if (added.length < messages.length || !messages.length || (!next && messages.length < FOLLOW_PAGE)) return fresh;
    if (!next) break; // of several brokers there is one page
    query.set("before", next);
  }
  // All of them are new, so there may be more between them and the list.
  if (asked === search.number) search.isCut = true;
  return fresh;
}

const brokerOf = ({ broker, topic }) => (broker ? `${topic ? "&" : "?"}broker=${encodeURIComponent(broker)}` : "");

async function load() {
  const asked = search.number;
  setText(part("count"), t("searching …"));
  part("older").disabled = true;
  const query = new URLSearchParams(search.query);
  if (search.next !== null) query.set("before", search.next);
  try {
    const answer = await requestOfAll("GET", `/messages?${query}`);
    if (asked !== search.number) return;
    search.isAnswered = true;
    search.found.push(...answer.messages.reverse());
    search.next = answer.next ?? null;
    search.leftOut += answer.left_out?.length ?? 0;
    showProblem("");
  } finally {
    if (asked === search.number) {
      part("older").disabled = false;
      show();
    }
  }
}

function show() {
  const { found, next, leftOut, query, isCut, isAnswered } = search;
  const text = part("filter").value.trim().toLowerCase();
  const shown = text ? found.filter((message) => contains(message, text)) : found;
  rows.show(shown, idOf);
  const isAll = next === null && !isCut && !query?.get("key");
  const all = isAll ? plural(found.length, "{0} message", "{0} messages") : plural(found.length, "the newest {0} message", "the newest {0} messages");
  setText(part("count"), query === null ? t("none yet") : !isAnswered ? t("unknown") : text ? t("{0} of {1}", count(shown.length), all) : all);
  part("filter").hidden = query === null;
  part("follow").hidden = !canFollow();
  part("empty").hidden = shown.length > 0 || (query !== null && !isAnswered);
  const none = found.length ? t("No row contains this text.") : t("No message was found.");
  setText(part("empty-title"), query === null ? t("Choose a topic.") : none);
  part("offered").hidden = query !== null;
  part("older").hidden = next === null || found.length >= MOST_ROWS;
  const left = [leftOut && plural(leftOut, "{0} message is too large for this list", "{0} messages are too large for this list"),
    isCut && t("some messages between the listed ones, or before them, are not in this list"),
    next !== null && found.length >= MOST_ROWS && t("the list is full: choose a time range to see older messages")];
  setText(part("left-out"), left.filter(Boolean).join(t("; ")));
}

function showProblem(text) {
  setText(part("problem"), text);
  part("problem").hidden = !text;
}

function showFields() {
  for (const field of form.querySelectorAll('[data-field="custom"]')) field.hidden = form.elements.last.value !== "custom";
}

async function offerNames() {
  try {
    const [{ topics }, { brokers }] = await Promise.all([request("GET", "/topics"), requestOfAll("GET", "/brokers")]);
    const names = [...new Set(topics.map(({ topic }) => topic))];
    part("topics").replaceChildren(...names.slice(0, MOST_TOPICS).map((topic) => el("option", { value: topic })));
    offerTopics(topics);
    if (brokers.length > 1) offerBrokers(brokers.map(({ broker }) => broker));
  } catch (error) {
    showProblem(error.message);
  }
}

/** Links to the topics with most messages, for a page without a search. */
function offerTopics(topics) {
  const users = topics.filter(({ topic, system }) => !system && !topic.startsWith("%"));
  const names = users.sort((one, other) => Number(other.messages) - Number(one.messages)).map(({ topic }) => topic);
  part("offered").replaceChildren(...[...new Set(names)].slice(0, OFFERED_TOPICS).map((topic) =>
    el("a", { href: `?topic=${encodeURIComponent(topic)}` }, visible(topic))));
}

/** Adds brokers to the select that it does not have yet. */
function offerBrokers(names) {
  const select = form.elements.broker;
  const known = [...select.options].map(({ value }) => value);
  select.append(...names.filter((name) => !known.includes(name)).map((name) => new Option(name)));
  select.closest("label").hidden = false;
}

/** The search in the page's address; without one, an empty form. */
function readSearch() {
  const broker = new URLSearchParams(location.search).get("broker");
  if (broker) offerBrokers([broker]); // a select takes only a value that it has
  readAddress(form);
  showFields();
  if (form.elements.topic.value || form.elements.id.value) {
    begin({ isLink: true });
    return;
  }
  clear();
  showProblem("");
  show();
}

form.addEventListener("change", showFields);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!form.elements.id.value.trim()) writeAddress(form, { isNew: true });
  begin();
});
part("follow").addEventListener("click", () => follow(search.following === null));
part("filter").addEventListener("input", () => {
  writeQuery({ filter: part("filter").value.trim() });
  show();
});
document.addEventListener("outage-over", () => { if (search.query !== null && !search.isAnswered && search.following === null) begin(); });
part("older").addEventListener("click", () => load().catch((error) => showProblem(error.message)));
const readFilter = () => { part("filter").value = new URLSearchParams(location.search).get("filter") ?? ""; };
window.addEventListener("popstate", () => {
  form.reset();
  readFilter();
  readSearch();
});
readFilter();
readSearch();
offerNames();
