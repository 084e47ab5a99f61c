/** The words of the API that pages show as they are, and "over" of the list of groups, in the page's language. Pure. */

import { t } from "./translate.js";

const WORDS = {
  stalled: t("stalled"), stopped: t("stopped"), "falling behind": t("falling behind"), unknown: t("unknown"),
  "catching up": t("catching up"), ok: t("ok"), over: t("stopped, nothing waits"),
  critical: t("critical"), warning: t("warning"), info: t("info"), webhook: t("webhook"), email: t("e-mail"),
  live: t("live"), stale: t("stale"), disconnected: t("disconnected"), connecting: t("connecting"), past: t("past"),
  page: t("page"), group: t("group"), topic: t("topic"), message: t("message"),
  queued: t("queued"), waiting: t("waiting"), running: t("running"), done: t("done"), failed: t("failed"),
  cancelled: t("cancelled"), ready: t("ready"), absent: t("absent"), installing: t("installing"),
  created: t("created"), changed: t("changed"), deleted: t("deleted"),
};

/** A word of the API; itself if it is not in the table. */
export const word = (value) => WORDS[value] ?? String(value);
