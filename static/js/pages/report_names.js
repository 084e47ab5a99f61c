/** The note in the form of the Reports page that no broker knows the topic or the group. It blocks nothing, because reports
 * read what is stored, and a deleted topic may still be there. */

import { withBroker } from "../brokers.js";
import { request, topicPath } from "../http.js";
import { t } from "../text/translate.js";

const FIELDS = {
  topic: { path: (name) => `${topicPath(name)}/groups?limit=1`, note: t("No topic of this name is known now. A deleted topic may still be in the log.") },
  group: { path: (name) => `/groups/${encodeURIComponent(name)}`, note: t("No group of this name is known now. A deleted group may still be in the log.") },
};
let asked = 0;

/** Asks the brokers for the names in a form's `elements`. Returns the note, which is empty if all are known; null if the
 * next question was asked meanwhile. */
export async function unknownNote(elements) {
  const turn = ++asked;
  const notes = await Promise.all(Object.entries(FIELDS).map(async ([field, about]) => {
    const name = elements[field].value.trim();
    return name && await isUnknown(withBroker(about.path(name), elements.broker.value)) ? about.note : "";
  }));
  return turn === asked ? notes.filter(Boolean).join(" ") : null;
}

/** Whether all brokers say that they do not have it. False if one does not answer. */
async function isUnknown(path) {
  try {
    await request("GET", path);
    return false;
  } catch (error) {
    return error.status === 404;
  }
}
