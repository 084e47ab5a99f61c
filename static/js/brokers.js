/**
 * Which broker a page is about, where its web process reaches several: the one that `?broker=` names in the page's own
 * address. Everything the page asks for goes to that one. Without it a page of lists shows all brokers; the live page,
 * which is one broker's, goes to the first.
 */

/** The broker that the page's address names; empty without one. */
export const asked = new URLSearchParams(globalThis.location?.search).get("broker") ?? "";

let showsAll = false;

/** Whether the page shows several brokers at once. Known once the picker is filled. */
export const isOfAllBrokers = () => showsAll;

/** `path` of the API or of a WebSocket, narrowed to the page's broker. */
export function ofBroker(path) {
  if (!asked) return path;
  return `${path}${path.includes("?") ? "&" : "?"}broker=${encodeURIComponent(asked)}`;
}

/** This page's address with another broker; with none, for all. */
export function addressOf(broker) {
  const url = new URL(location.href);
  if (broker) url.searchParams.set("broker", broker);
  else url.searchParams.delete("broker");
  return url.href;
}

/**
 * Fills the select of `part("brokers")` and shows it where there is a choice. `all` says whether the page can show all
 * brokers at once. `ask(path)` promises an answer of the API. Promises the names of the brokers that the page shows
 * together, the first one being whose stream comes unasked; none when it shows one.
 */
export async function brokerPicker(part, ask, { all }) {
  let brokers;
  try {
    ({ brokers } = await ask("/brokers"));
  } catch {
    return []; // the page says by itself that its broker is away; there is nothing to choose then
  }
  if (brokers.length < 2 && !asked) return [];
  if (!asked && !all) {
    location.replace(addressOf(brokers[0].broker));
    return [];
  }
  const names = brokers.map(({ broker }) => broker);
  if (asked && !names.includes(asked)) names.push(asked);
  const options = names.map((name) => new Option(nameOf(name, brokers), name, false, name === asked));
  showsAll = all && !asked;
  if (all) options.unshift(new Option("all brokers", "", false, !asked));
  part("brokers").replaceChildren(...options);
  part("brokers").hidden = false;
  part("broker").hidden = true;
  part("brokers").addEventListener("change", (event) => location.assign(addressOf(event.target.value)));
  return showsAll ? names : [];
}

function nameOf(name, brokers) {
  const line = brokers.find(({ broker }) => broker === name);
  if (!line) return `${name} (not here)`;
  return line.available ? name : `${name} (away)`;
}
