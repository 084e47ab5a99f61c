/** The page of all groups. */

import { count } from "./format.js";
import { request } from "./http.js";
import { startPage } from "./page.js";
import { byGroup, sum } from "./explain_group.js";
import { clientEventsPanel } from "./panels/client_events.js";
import { groupsPanel } from "./panels/groups.js";

/** The answer with its 64-bit numbers as numbers, and one line for a group of several brokers. */
function read(answer) {
  return { ...answer, groups: byGroup(answer.groups.map((group) => ({ ...group, lag: Number(group.lag) }))) };
}

function figures({ groups }) {
  return [
    ["groups", count(groups.length), "Groups that have members, offsets or held pulls"],
    ["members", count(sum(groups, "members")), "Members of all groups"],
    ["behind", count(sum(groups, "lag")), "Messages that are not committed yet, over all groups"],
    ["held pulls", count(sum(groups, "holds")), "Pulls of groups that wait in the pullRequestTable"],
    ["without members", count(groups.filter((group) => !group.members).length), "Groups of which no member is online"],
  ];
}

startPage({
  ask: async () => read(await request("GET", "/groups")), figures,
  panels: [groupsPanel(), clientEventsPanel()],
});
