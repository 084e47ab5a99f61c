/** A search: its fields in the page's address, so that it can be linked to and repeated, and what is new to its list. */

/**
 * The messages of an answer, newest first, that are not listed yet and newer than the oldest listed one. `known` has the
 * ids of the list. An answer may reach further back than the list does: that part belongs to its next page.
 */
export function newMessages(messages, known, idOf) {
  const isKnown = messages.map((message) => known.has(idOf(message)));
  const last = isKnown.lastIndexOf(true);
  return messages.filter((_, at) => !isKnown[at] && (last < 0 || at < last));
}

/** Fills the form from the page's address. Names that the address does not have keep their values. */
export function readAddress(form) {
  const query = new URLSearchParams(location.search);
  for (const field of form.elements) if (field.name && query.has(field.name)) field.value = query.get(field.name);
}

/** Writes the fields that are not empty into the page's address. With `isNew` the reader can go back to the one before. */
export function writeAddress(form, { isNew = false } = {}) {
  const url = new URL(location.href);
  for (const { name, value } of form.elements) {
    if (!name) continue;
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  if (url.href !== location.href) history[isNew ? "pushState" : "replaceState"](null, "", url);
}

/** A value of the page's address; empty if it has none. */
export const queryOf = (name) => new URLSearchParams(location.search).get(name) ?? "";

/** Keeps a checkbox in the page's address: NAME=1 while it is checked. */
export function keepChecked(box, name) {
  box.checked = queryOf(name) !== "";
  box.addEventListener("change", () => writeQuery({ [name]: box.checked ? "1" : "" }));
}

/** Writes values into the page's address; an empty one is removed from it. */
export function writeQuery(values) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  if (url.href !== location.href) history.replaceState(null, "", url);
}
