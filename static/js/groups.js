/** The Groups page. */

import { count } from "./format.js";
import { request } from "./http.js";
import { startPage } from "./page.js";
import { knownSum, mergeBrokers, sum } from "./explain_group.js";
import { clientEventsPanel } from "./panels/client_events.js";
import { groupsPanel } from "./panels/groups.js";

/** The answer with its 64-bit integers as numbers, and one entry for a group on several brokers. */
function parse(answer) {
  return { ...answer, groups: mergeBrokers(answer.groups.map((group) => ({ ...group, lag: group.lag === null ? null : Number(group.lag) }))) };
}

function figures({ groups }) {
  return [
    ["groups", count(groups.length), "Groups that have members, offsets or held pulls"],
    ["members", count(sum(groups, "members")), "Members of all groups"],
    ["lag", count(knownSum(groups, "lag")), "Messages behind the committed offsets of all groups; queues without a committed offset are not counted"],
    ["held pulls", count(sum(groups, "holds")), "Pulls of all groups in the pullRequestTable"],
    ["without members", count(groups.filter((group) => !group.members).length), "Groups that have no member online"],
  ];
}

startPage({
  ask: async () => parse(await request("GET", "/groups")), figures,
  panels: [groupsPanel(), clientEventsPanel()],
});
