/** Cron expressions, and the simple choices that the form offers instead. Times are UTC. */

import { language, t } from "./text/translate.js";

const DAY = /^(\d{1,2}) (\d{1,2}) \* \* \*$/;
const HOUR = /^(\d{1,2}) \* \* \* \*$/;
const two = (number) => String(number).padStart(2, "0");

/** The form's choice for a cron expression: {every: "day", time}, {every: "hour", minute} or {every: "cron", cron}. */
export function choiceOf(cron) {
  const [, minute, hour] = DAY.exec(cron ?? "") ?? [];
  if (hour !== undefined && Number(minute) < 60 && Number(hour) < 24) return { every: "day", time: `${two(hour)}:${two(minute)}` };
  const [, past] = HOUR.exec(cron ?? "") ?? [];
  if (past !== undefined && Number(past) < 60) return { every: "hour", minute: Number(past) };
  return { every: "cron", cron: cron ?? "" };
}

/** The cron expression of a choice; null when the choice is incomplete. */
export function cronOf({ every, time = "", minute = "", cron = "" }) {
  if (every === "day") {
    const [, hours, minutes] = /^(\d{1,2}):(\d{2})/.exec(time) ?? [];
    return hours === undefined ? null : `${Number(minutes)} ${Number(hours)} * * *`;
  }
  if (every === "hour") {
    const past = String(minute).trim();
    return /^\d{1,2}$/.test(past) && Number(past) < 60 ? `${Number(past)} * * * *` : null;
  }
  return cron.trim().replace(/\s+/g, " ") || null;
}

/** When a schedule runs, in words. In English these are the server's. */
export function whenText({ when, cron }) {
  if (language === "en" || !cron) return when;
  const choice = choiceOf(cron);
  if (choice.every === "day") return t("every day at {0} UTC", choice.time);
  return choice.every === "hour" ? t("every hour at minute {0}", choice.minute) : t("cron {0} (UTC)", cron);
}
