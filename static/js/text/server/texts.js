/** The server's sentences in the page's language. The API's texts are English, so that programs can rely on them; a page
 * shows the translation of the template that a text fits. Pure. */

import { language, t } from "../translate.js";
import { ALERTS } from "./alerts.js";
import { QUEUES } from "./queues.js";
import { REFUSALS } from "./refusals.js";

const LONGEST = 2_000;
const MOST_REMEMBERED = 1_000;
const PLACE = /\{\d\}/;
const DURATION = /^\d[\d.,]* (?:µs|ms|s|min|h|d)(?: \d+ (?:s|min|h))?$/;

const TEMPLATES = [...ALERTS, ...QUEUES, ...REFUSALS];
const fixed = new Set(TEMPLATES.filter((template) => !PLACE.test(template)));
let patterns = null;
const remembered = new Map();

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
  if (DURATION.test(text)) return text.replace(/([\d.,]+) (\S+)/g, (_, number, unit) => t(`{0} ${unit}`, number));
  patterns ??= TEMPLATES.filter((template) => PLACE.test(template)).map(patternOf).sort((one, other) => other.weight - one.weight);
  for (const { template, pattern } of patterns) {
    const match = pattern.exec(text);
    if (match) return t(template, ...match.slice(1).map(serverText));
  }
  return text;
}

/** What a template fits, and how much of it is not a place: of two templates that fit, the more exact one counts. */
function patternOf(template) {
  const parts = template.split(PLACE);
  const escaped = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return { template, weight: parts.join("").length, pattern: new RegExp(`^${escaped.join("([^]+?)")}$`) };
}
