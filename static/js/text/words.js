/** The words of the API that pages show as they are, those of the list of groups, and the ids of verdicts with the severity
 * error or warning, in the page's language. Pure. */

import { t } from "./translate.js";

const WORDS = {
  stalled: t("stalled"), stopped: t("stopped"), "falling behind": t("falling behind"), unknown: t("unknown"),
  "catching up": t("catching up"), ok: t("ok"), over: t("stopped, nothing waits"),
  errors: t("with an error"), warnings: t("with a warning"),
  critical: t("critical"), error: t("error"), warning: t("warning"), info: t("info"), webhook: t("webhook"), email: t("e-mail"),
  live: t("live"), stale: t("stale"), disconnected: t("disconnected"), connecting: t("connecting"), past: t("past"),
  page: t("page"), group: t("group"), topic: t("topic"), message: t("message"),
  queued: t("queued"), waiting: t("waiting"), running: t("running"), done: t("done"), failed: t("failed"),
  cancelled: t("cancelled"),
  created: t("created"), changed: t("changed"), deleted: t("deleted"),
  broker_away: t("broker away"), broker_draining: t("broker shuts down"), broker_refuses_messages: t("broker refuses messages"),
  holds_used_up: t("holds used up"), engine_busy: t("engine busy"), slaves_behind: t("slaves behind"), flush_behind: t("flush behind"),
  pulls_refused: t("pulls refused"), may_not_consume: t("may not consume"), every_message_fails: t("every message fails"),
  no_member: t("no member"), heartbeat_late: t("heartbeat late"), listener_blocked: t("listener blocked"),
  not_acknowledged: t("not acknowledged"), no_permits: t("no permits"), not_pulling: t("not pulling"),
  locked_by_another: t("locked by another"), stands_still: t("stands still"), subscriptions_disagree: t("subscriptions disagree"),
  filter_rejects_all: t("filter rejects all"), topic_missing: t("topic missing"), topic_not_subscribed: t("topic not subscribed"),
  pulled_by_another: t("pulled by another"), offset_deleted: t("offset deleted"), offset_beyond_end: t("offset beyond the end"),
  falling_behind: t("falling behind"), some_messages_fail: t("some messages fail"),
};

/** A word of the API; itself if it is not in the table. */
export const word = (value) => WORDS[value] ?? String(value);
