/**
 * The page's broker, for a web process that reaches several brokers: `?broker=` in the page's own address names it, and
 * all requests of the page go to it. Without `?broker=` a page of lists shows all brokers; a page that shows one broker
 * redirects to the first, with `&default=1`: nobody chose it.
 */

import { isAttached } from "./pages/attached.js";
import { Poller } from "./poll.js";
import { t } from "./text/translate.js";

const AGAIN_MS = 10_000;

/** The broker named in the page's address; empty without one. */
export const requestedBroker = new URLSearchParams(globalThis.location?.search).get("broker") ?? "";

let showsAll = false;

/** Whether the page shows several brokers at once. False until the picker is filled. */
export const showsAllBrokers = () => showsAll;

/** `path` of the API or of a WebSocket, narrowed to the page's broker unless it names one itself. */
export function withBroker(path, broker = requestedBroker) {
  if (!broker || /[?&]broker=/.test(path)) return path;
  return `${path}${path.includes("?") ? "&" : "?"}broker=${encodeURIComponent(broker)}`;
}

/** Not alerts and reports, which are about all brokers: a report of one broker must be asked for on its page. */
const PAGES = /^\/($|(groups|topics|messages|connections|holds)(\/|$))/;

/** The page of one group, topic, message or hold. */
const PAGE_OF_ONE = /^\/(groups|topics|messages|holds)\/./;

/** The address of a link of the page, with the broker that the page's own address `here` names: the next page is about
 * the same broker. If nobody chose that broker, only links to one group, topic, message or hold keep it, because the page
 * shows those of its broker. Its links to lists are then about all brokers. */
export function keepBroker(href, here) {
  const [url, page] = [new URL(href, here), new URL(here)];
  const broker = page.searchParams.get("broker");
  const pages = page.searchParams.has("default") ? PAGE_OF_ONE : PAGES;
  const isKept = broker && url.origin === page.origin && pages.test(url.pathname) && !url.searchParams.has("broker");
  if (isKept) url.searchParams.set("broker", broker);
  return isKept ? url.href : href;
}

/** The address `here` for `broker`, which somebody chose; for all brokers when it is empty. */
export function addressOf(broker, here = location.href) {
  const url = new URL(here);
  url.searchParams.delete("default");
  if (broker) url.searchParams.set("broker", broker);
  else url.searchParams.delete("broker");
  return url.href;
}

/** The address `here` for the first broker, which nobody chose. */
export function addressOfFirst(broker, here = location.href) {
  const url = new URL(addressOf(broker, here));
  url.searchParams.set("default", "1");
  return url.href;
}

/**
 * Fills the select of `part("brokers")`, and shows it when there are several brokers. `all`: the page can show all
 * brokers at once. `ask(path)` promises an answer of the API. If the page's address names no broker, `onBrokers(names)`
 * gets the brokers that such a page shows together; the event stream without `?broker=` is the first one's. Attached
 * brokers are asked for again and again, because others may join their cluster.
 */
export function brokerPicker(part, ask, { all, onBrokers = () => {} }) {
  const select = part("brokers");
  let first = "";
  let drawn = "";

  function show({ brokers }) {
    first ||= brokers[0]?.broker ?? "";
    const names = brokers.map(({ broker }) => broker);
    if (all && !requestedBroker) onBrokers(names);
    if (names.length < 2 && !requestedBroker) return;
    if (!requestedBroker && !all) {
      location.replace(addressOfFirst(first));
      return;
    }
    showsAll = all && !requestedBroker;
    const entries = JSON.stringify(brokers);
    if (entries === drawn) return; // new options would close the list that somebody is reading
    drawn = entries;
    if (requestedBroker && !names.includes(requestedBroker)) names.push(requestedBroker);
    const options = names.map((name) => new Option(nameOf(name, brokers), name, false, name === requestedBroker));
    if (all) options.unshift(new Option(t("all brokers"), "", false, !requestedBroker));
    select.replaceChildren(...options);
    select.hidden = false;
    part("broker").hidden = true;
  }

  select.addEventListener("change", (event) => location.assign(addressOf(event.target.value)));
  const onError = () => {}; // the page shows by itself that its broker is unavailable
  if (isAttached) new Poller({ ask: () => ask("/brokers"), onAnswer: show, onError, everyMs: AGAIN_MS }).start();
  else ask("/brokers").then(show, onError);
}

function nameOf(name, brokers) {
  const entry = brokers.find(({ broker }) => broker === name);
  if (!entry) return t("{0} (unknown)", name);
  return entry.available ? name : t("{0} (unavailable)", name);
}
