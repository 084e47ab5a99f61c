/** The page's texts in its language. Django's catalog is loaded before the modules; an English page has none. Pure. */

const catalog = globalThis.django;

/** The page's language, such as "en" or "zh-hans". */
export const language = globalThis.document?.documentElement.lang || "en";

/** `text` in the page's language, with `values` in the places of {0}, {1} … . */
export function t(text, ...values) {
  return fill(catalog?.gettext(text) ?? text, values);
}

/** One of the two texts, by `number`. The number is not filled in: give it among `values`. */
export function choose(number, one, many, ...values) {
  const isOne = Number(number) === 1;
  return fill(catalog?.ngettext(one, many, Number(number)) ?? (isOne ? one : many), values);
}

/** Marks a text for the catalog; `t` translates it later. */
export const noop = (text) => text;

function fill(text, values) {
  return values.length ? text.replace(/\{(\d)\}/g, (_, place) => values[place]) : text;
}
