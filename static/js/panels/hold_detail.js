/** Explains the selected hold: why it waits, and afterwards how it ended. */

import { requestedBroker } from "../brokers.js";
import { el, setText } from "../dom.js";
import { explainEnd, explainHold, explainUnbegun } from "../text/explain.js";
import { dateTime, seconds } from "../text/format.js";
import { clientHref, groupHref, holdHref } from "../links.js";
import { queueKey } from "../reducer.js";
import { t } from "../text/translate.js";

const HINT = t("Select a held pull to see why it is held.");

const entry = ([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value));

export function holdDetail(part) {
  let hold = null;
  let end = null;

  function facts() {
    const rows = [
      [t("hold"), el("a", { href: holdHref(hold.id, hold.broker) }, `#${hold.id}`)],
      [t("client"), hold.client_id && hold.protocol !== "http" ? el("a", { href: clientHref(hold.client_id) }, hold.client_id) : hold.client_id || "–"],
      [t("group"), hold.group ? el("a", { href: groupHref(hold.group) }, hold.group) : "–"],
      [t("protocol"), hold.protocol],
      [t("filter"), hold.filter || "*"],
      [t("held since"), dateTime(hold.suspended_at_ms)],
      [t("maximum hold time"), seconds(hold.deadline_ms - hold.suspended_at_ms)],
    ];
    return rows.map(entry);
  }

  function sentence({ state, now, status }) {
    if (status === "past" && hold.suspended_at_ms > now) return explainUnbegun(hold);
    if (state.holds.has(hold.id)) {
      const queue = state.queues.get(queueKey(hold.topic, hold.queue_id));
      return explainHold(hold, queue, now, { longPollingEnable: state.longPollingEnable });
    }
    end ??= state.wakeups.find((wakeup) => wakeup.hold_id === hold.id) ?? null;
    return explainEnd(hold, end);
  }

  return {
    select(selected) {
      hold = selected;
      end = null;
      part("facts").replaceChildren(...(hold ? facts() : []));
      part("detail").setAttribute("data-selected-hold", hold ? hold.id : "");
      if (!hold) setText(part("sentence"), HINT);
    },
    /** Says that the page does not have this hold, with a link to the hold's own page. */
    showMissing(id) {
      part("facts").replaceChildren(entry([t("hold"), el("a", { href: holdHref(id, requestedBroker) }, `#${id}`)]));
      setText(part("sentence"), t("This pull is not among the held pulls on this page. Its own page says what became of it, as long as the broker keeps the events."));
    },
    tick(view) {
      if (hold) setText(part("sentence"), sentence(view));
    },
  };
}
