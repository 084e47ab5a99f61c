/** Which places a typed text leads to. Pure. */

const MOST = 12;
const MESSAGE_ID = /^[0-9A-Fa-f]{32,40}$/;

/** 0: the name is the text, 1: it begins with it, 2: it contains it; -1: it does not. */
function rank(name, text) {
  const lower = name.toLowerCase();
  if (lower === text) return 0;
  if (lower.startsWith(text)) return 1;
  return lower.includes(text) ? 2 : -1;
}

/**
 * Up to 12 places `{kind, text, href}`, the best first. What is typed may also be a name that is not known, or the id of
 * a message: those come last, unless the text looks like an id.
 */
export function destinations(typed, { pages, topics, groups }, { groupHref, topicHref, messageHref }) {
  const text = typed.toLowerCase();
  const places = [
    ...pages.map(({ text: name, href }) => ({ kind: "page", text: name, href })),
    ...groups.map((group) => ({ kind: "group", text: group, href: groupHref(group) })),
    ...topics.map((topic) => ({ kind: "topic", text: topic, href: topicHref(topic) })),
  ].map((place) => ({ ...place, rank: rank(place.text, text) })).filter((place) => place.rank >= 0);
  places.sort((one, other) => one.rank - other.rank); // stable: pages before groups before topics
  const found = places.slice(0, MOST - 3).map(({ kind, text: name, href }) => ({ kind, text: name, href }));
  if (!typed) return found;
  const message = { kind: "message", text: typed, href: messageHref({ message_id: typed }) };
  if (MESSAGE_ID.test(typed)) return [message, ...found];
  const isNew = (kind) => !found.some((place) => place.kind === kind && place.text === typed);
  if (isNew("group")) found.push({ kind: "group", text: typed, href: groupHref(typed) });
  if (isNew("topic")) found.push({ kind: "topic", text: typed, href: topicHref(typed) });
  return [...found, message];
}
