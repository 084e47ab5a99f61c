/** The Groups page. */

import { count } from "../text/format.js";
import { requestPages } from "../http.js";
import { startPage } from "../page.js";
import { groupState, knownSum, lagText, mergeBrokers, sum } from "../text/explain_group.js";
import { clientEventsPanel } from "../panels/client_events.js";
import { MOST_GROUPS, groupsPanel } from "../panels/groups.js";
import { t } from "../text/translate.js";

/** The answer with its 64-bit integers as numbers, and one entry for a group on several brokers. */
function parse(answer) {
  return { ...answer, groups: mergeBrokers(answer.groups.map((group) => ({ ...group, lag: group.lag === null ? null : Number(group.lag),
    dead_letters: group.dead_letters === undefined ? null : Number(group.dead_letters) }))) };
}

function figures({ groups, hasMore }) {
  return [
    [t("groups"), `${hasMore ? "≥ " : ""}${count(groups.length)}`, t("Groups that have members, offsets or held pulls")],
    [t("members"), count(sum(groups, "members")), t("Members of all groups")],
    [t("lag"), lagText({ lag: knownSum(groups, "lag"), unknown_queues: sum(groups, "unknown_queues") }),
      t("Messages behind the committed offsets of all groups; ≥ if some queue has no committed offset")],
    [t("held pulls"), count(sum(groups, "holds")), t("Pulls of all groups in the pullRequestTable")],
    [t("need attention"), count(groups.filter((group) => ["bad", "warn"].includes(groupState(group).tone)).length),
      t("Groups that are stalled, stopped while messages wait, or falling behind, or that have another error or warning")],
  ];
}

startPage({
  ask: async () => parse(await requestPages("/groups", "groups", MOST_GROUPS)), figures,
  panels: [groupsPanel(), clientEventsPanel()],
});
