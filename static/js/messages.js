/** The search for messages: by topic and time range, by key, or by id. */

import { KeyedRows, cell, el, setText } from "./dom.js";
import { count, dateTime, isoTime, plural, visible } from "./format.js";
import { request, requestOfAll } from "./http.js";
import { messageHref } from "./links.js";
import { bodyLine } from "./message_text.js";
import { queueKey } from "./reducer.js";
import { readAddress, writeAddress } from "./search_state.js";

const PAGE = 50;
const BODY_BYTES = 400;
const MOST_ROWS = 1_000;
const MOST_TOPICS = 2_000;

const part = (name) => document.querySelector(`[data-part="${name}"]`);
const form = document.querySelector('[data-panel="search"]');
const rows = new KeyedRows(part("rows"), { create, update: () => {} });
const search = { number: 0, query: null, found: [], next: null, leftOut: 0 };

const labelled = (kind, label, text) => el("td", { role: "cell", class: kind, "data-label": label }, text);

function create(message) {
  const tagAndKeys = [message.tag, ...message.keys].filter(Boolean).map(visible).join(" ");
  const where = queueKey(message.topic, message.queue_id);
  return el("tr", { role: "row", "data-message-row": message.message_id },
    cell("quiet", isoTime(Number(message.store_time_ms)), dateTime(Number(message.store_time_ms))),
    cell("mono long", where, where), labelled("num", "offset", count(message.queue_offset)),
    cell("names-cell long", tagAndKeys, el("bdi", {}, tagAndKeys || "–")),
    cell("mono long body-cell", null, el("bdi", {}, message.problem ? `damaged: ${message.problem}` : bodyLine(message))),
    labelled("num quiet", "bytes", count(message.body_size ?? message.size)),
    cell("mono long id-cell", null, el("a", { href: messageHref(message) }, visible(message.message_id || message.offset_message_id))));
}

/** The fields as the parameters of the API; throws an Error that says what is missing. */
function queryOf({ topic, key, last, from, to, broker }) {
  if (!topic) throw new Error("Enter a topic: messages are searched in one topic. Only an id is looked for everywhere.");
  const query = new URLSearchParams({ topic, limit: PAGE, max_body: BODY_BYTES });
  if (key) query.set("key", key);
  if (broker) query.set("broker", broker);
  if (last === "custom") {
    const [begin, end] = [from, to].map((text) => (text ? new Date(text).getTime() : null));
    if (begin !== null && end !== null && begin > end) throw new Error("The time range ends before it begins.");
    if (begin !== null) query.set("begin_ms", begin);
    if (end !== null) query.set("end_ms", end + 999); // the field has whole seconds
  } else if (last) {
    query.set("begin_ms", Date.now() - Number(last) * 1000);
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
  Object.assign(search, { number: search.number + 1, query: null, found: [], next: null, leftOut: 0 });
  show();
  try {
    search.query = queryOf(fields);
    await load();
  } catch (error) {
    showProblem(error.message);
  }
}

const brokerOf = ({ broker, topic }) => (broker ? `${topic ? "&" : "?"}broker=${encodeURIComponent(broker)}` : "");

async function load() {
  const asked = search.number;
  setText(part("count"), "searching …");
  part("older").disabled = true;
  const query = new URLSearchParams(search.query);
  if (search.next !== null) query.set("before", search.next);
  try {
    const answer = await requestOfAll("GET", `/messages?${query}`);
    if (asked !== search.number) return;
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
  const { found, next, leftOut, query } = search;
  rows.show(found, (message) => `${message.broker} ${message.offset_message_id}`);
  const isAll = next === null && !query?.get("key");
  setText(part("count"), query === null ? "none yet" : isAll ? plural(found.length, "message") : `the newest ${plural(found.length, "message")}`);
  part("empty").hidden = found.length > 0;
  setText(part("empty-title"), query === null ? "Choose a topic." : "No message was found.");
  part("older").hidden = next === null || found.length >= MOST_ROWS;
  const left = [leftOut && `${plural(leftOut, "message is", "messages are")} too large for this list`,
    next !== null && found.length >= MOST_ROWS && "the list is full: choose a time range to see older messages"];
  setText(part("left-out"), left.filter(Boolean).join("; "));
}

function showProblem(text) {
  setText(part("problem"), text);
  part("problem").hidden = !text;
  if (text && !search.found.length) setText(part("count"), "none");
}

function showFields() {
  for (const field of form.querySelectorAll('[data-field="custom"]')) field.hidden = form.elements.last.value !== "custom";
}

async function offerNames() {
  try {
    const [{ topics }, { brokers }] = await Promise.all([request("GET", "/topics"), requestOfAll("GET", "/brokers")]);
    part("topics").replaceChildren(...topics.slice(0, MOST_TOPICS).map(({ topic }) => el("option", { value: topic })));
    if (brokers.length > 1) offerBrokers(brokers.map(({ broker }) => broker));
  } catch (error) {
    showProblem(error.message);
  }
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
  Object.assign(search, { number: search.number + 1, query: null, found: [], next: null, leftOut: 0 });
  showProblem("");
  show();
}

form.addEventListener("change", showFields);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!form.elements.id.value.trim()) writeAddress(form, { isNew: true });
  begin();
});
part("older").addEventListener("click", () => load().catch((error) => showProblem(error.message)));
window.addEventListener("popstate", () => {
  form.reset();
  readSearch();
});
readSearch();
offerNames();
