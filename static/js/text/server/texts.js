/** The server's sentences in the page's language. The API's texts are English, so that programs can rely on them; a page
 * shows the translation of the template that a text fits. Pure. */

import { language, noop, t } from "../translate.js";
import { ALERTS } from "./alerts.js";
import { ERRORS } from "./errors.js";
import { QUEUES } from "./queues.js";
import { REFUSALS } from "./refusals.js";
import { REPORT_NAMES } from "./report_names.js";
import { COUNTED_IN_NOTES, REPORT_NOTES } from "./report_notes.js";
import { AND_MORE, COUNTED, LISTED, REPORT_WORDS } from "./report_words.js";

const LONGEST = 2_000;
const MOST_REMEMBERED = 1_000;
const PLACE = /\{\d\}/;
const DURATIONS = [noop("{0} µs"), noop("{0} ms"), noop("{0} s"), noop("{0} min"), noop("{0} h"), noop("{0} d")];

const TEMPLATES = [...ALERTS, ...ERRORS, ...QUEUES, ...REFUSALS, ...REPORT_NAMES, ...REPORT_NOTES, ...REPORT_WORDS];
const fixed = new Set(TEMPLATES.filter((template) => !PLACE.test(template)));
const amounts = new Set([...DURATIONS, ...COUNTED, ...COUNTED_IN_NOTES]);
const remembered = new Map();
let patterns = null;

/** `text` in the page's language; as it is in English, and if no template fits. Names in it stay as they are. */
export function serverText(text) {
  if (language === "en" || !text || text.length > LONGEST) return text;
  if (!remembered.has(text)) {
    if (remembered.size >= MOST_REMEMBERED) remembered.clear();
    remembered.set(text, translated(text));
  }
  return remembered.get(text);
}

function translated(text) {
  if (fixed.has(text)) return t(text);
  patterns ??= { sentences: patternsOf(TEMPLATES), listed: patternsOf(LISTED) };
  return amount(text) ?? list(text) ?? fitted(text, patterns.sentences) ?? withName(text) ?? text;
}

/** "2,000 messages", "1 min 5 s". */
function amount(text) {
  const parts = text.match(/\d[\d,.]* [a-zµ]+(?: [a-z]+)?/g) ?? [];
  if (!parts.length || parts.join(" ") !== text) return null;
  const split = parts.map((part) => /^(\S+) ([^]+)$/.exec(part)).map(([, number, unit]) => [number, `{0} ${unit}`]);
  return split.every(([, template]) => amounts.has(template)) ? split.map(([number, template]) => t(template, number)).join(" ") : null;
}

/** "a on b is stalled, 1 message behind; …; and 4 more." */
function list(text) {
  const [, entries, others, end] = /^([^]+?)(?: and ([\d,]+) more)?(\.?)$/.exec(text);
  const shown = entries.split("; ").map((entry) => fitted(entry, patterns.listed));
  if (shown.includes(null)) return null;
  const all = others ? t(AND_MORE, shown.join(t("; ")), others) : shown.join(t("; "));
  return end ? t("{0}.", all) : all;
}

/** A sentence after the name of what it is about: "broker-a: …". */
function withName(text) {
  const [, name, sentence] = /^([^:\s]{1,255}): ([^]+)$/.exec(text) ?? [];
  const shown = sentence ? serverText(sentence) : sentence;
  return shown === sentence ? null : t("{0}: {1}", name, shown);
}

function fitted(text, candidates) {
  for (const { template, pattern } of candidates) {
    const match = pattern.exec(text);
    if (match) return t(template, ...match.slice(1).map(serverText));
  }
  return null;
}

/** The pattern of each template. Of two templates that fit a text, the one with more text of its own comes first. */
function patternsOf(templates) {
  return templates.filter((template) => PLACE.test(template)).map((template) => {
    const parts = template.split(PLACE);
    const escaped = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return { template, weight: parts.join("").length, pattern: new RegExp(`^${escaped.join("([^]+?)")}$`) };
  }).sort((one, other) => other.weight - one.weight);
}
