/** The schedules of a report, and the form that adds or changes one. */

import { choiceOf, cronOf, whenText } from "../cron.js";
import { KeyedRows, el, setAttribute, setText } from "../dom.js";
import { request } from "../http.js";
import { t } from "../text/translate.js";

const PERIODS = { 1: t("the last hour"), 24: t("the last 24 hours"), 168: t("the last 7 days") };
const CHOICES = { day: t("every day at"), hour: t("every hour, at minute"), cron: t("cron expression") };

export class Schedules {
  /** `act(button, action)` runs an action and shows its error; with `{throws: true}` it throws the error instead. */
  constructor(root, { name: report, title, is_daily: isDaily }, act) {
    this.path = `/reports/${encodeURIComponent(report)}/schedules`;
    this.title = title;
    this.wholeRange = isDaily ? t("the day before (UTC)") : t("all stored data");
    this.act = act;
    this.editing = null;
    this.none = el("span", {}, t("Not scheduled."));
    this.list = el("ul", { class: "schedule-list", "aria-label": t("Schedules of {0}", title) });
    this.add = el("button", { type: "button", class: "button small", "aria-label": t("Add a schedule to {0}", title) }, t("Add a schedule"));
    this.add.addEventListener("click", () => this.open(null));
    this.form = this.createForm(`schedule-${report}`);
    this.rows = new KeyedRows(this.list, { create: (schedule) => this.createRow(schedule), update: (row, schedule) => showRow(row, schedule, this.wholeRange) });
    root.classList.add("schedules");
    root.replaceChildren(this.none, this.list, this.add, this.form);
  }

  show(schedules) {
    this.none.hidden = schedules.length > 0;
    this.list.hidden = !schedules.length;
    this.rows.show(schedules, (schedule) => schedule.id);
  }

  createRow(schedule) {
    const path = `${this.path}/${schedule.id}`;
    const box = el("input", { type: "checkbox" });
    const change = el("button", { type: "button", class: "button small" }, t("Change"));
    const remove = el("button", { type: "button", class: "button small" }, t("Remove"));
    const row = el("li", { "data-schedule": schedule.id }, el("label", { class: "check" }, box, el("span", { "data-part": "when" })), change, remove);
    box.addEventListener("change", () => this.act(box, () => request("PATCH", path, { enabled: box.checked })));
    change.addEventListener("click", () => this.open(row.schedule));
    remove.addEventListener("click", () => this.act(remove, () => request("DELETE", path)));
    return row;
  }

  createForm(id) {
    const field = (name, label, input) => el("label", { "data-field": name }, el("span", { class: "visually-hidden" }, label), input);
    this.every = el("select", { class: "input", name: "every" }, ...Object.entries(CHOICES).map(([value, text]) => el("option", { value }, text)));
    this.time = el("input", { class: "input", type: "time", name: "time", value: "02:30" });
    this.minute = el("input", { class: "input", type: "number", name: "minute", min: 0, max: 59, value: 15 });
    this.cron = el("input", { class: "input", type: "text", name: "cron", maxlength: 120, placeholder: "30 2 * * mon-fri", spellcheck: "false", autocomplete: "off" });
    this.period = el("select", { class: "input", name: "period" });
    this.topic = el("input", { class: "input", type: "text", name: "topic", maxlength: 255, placeholder: t("all topics"), spellcheck: "false", autocomplete: "off" });
    this.group = el("input", { class: "input", type: "text", name: "group", maxlength: 255, placeholder: t("all groups"), spellcheck: "false", autocomplete: "off" });
    this.broker = el("input", { class: "input", type: "text", name: "broker", maxlength: 255, placeholder: t("all brokers"), spellcheck: "false", autocomplete: "off" });
    this.save = el("button", { type: "submit", class: "button primary small" }, t("Save"));
    const cancel = el("button", { type: "button", class: "button small" }, t("Cancel"));
    const form = el("form", { id, class: "schedule-form", hidden: true, novalidate: true },
      field("every", t("How often"), this.every), field("day", t("Time of day, UTC"), this.time), field("hour", t("Minute of the hour"), this.minute),
      field("cron", t("Minute, hour, day of the month, month, day of the week"), this.cron), el("span", {}, "UTC"),
      field("period", t("Time range of each run"), this.period), field("topic", t("Topic"), this.topic), field("group", t("Group"), this.group), field("broker", t("Broker"), this.broker), this.save, cancel,
      el("p", { class: "schedule-problem", role: "alert", hidden: true }));
    this.problem = form.lastElementChild;
    this.every.addEventListener("change", () => this.showFields());
    cancel.addEventListener("click", () => this.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    return form;
  }

  open(schedule) {
    this.editing = schedule;
    const choice = schedule ? choiceOf(schedule.cron) : { every: "day", time: "02:30" };
    this.every.value = choice.every;
    this.time.value = choice.time ?? this.time.value;
    this.minute.value = choice.minute ?? this.minute.value;
    this.cron.value = choice.cron ?? schedule?.cron ?? "";
    const about = schedule?.parameters ?? { last_hours: null, topic: null, consumer_group: null, broker: null };
    const periods = { "": this.wholeRange, ...PERIODS, [about.last_hours ?? ""]: periodText(about.last_hours, this.wholeRange) };
    this.period.replaceChildren(...Object.entries(periods).map(([value, text]) => el("option", { value }, text)));
    this.period.value = about.last_hours ?? "";
    this.topic.value = about.topic ?? "";
    this.group.value = about.consumer_group ?? "";
    this.broker.value = about.broker ?? "";
    setAttribute(this.form, "aria-label", schedule ? t("Change the schedule “{0}” of {1}", whenText(schedule), this.title) : t("A new schedule of {0}", this.title));
    this.showProblem("");
    this.showFields();
    this.form.hidden = false;
    this.add.hidden = true;
    this.every.focus();
  }

  close() {
    this.form.hidden = true;
    this.add.hidden = false;
    this.add.focus();
  }

  showFields() {
    for (const every of Object.keys(CHOICES)) this.form.querySelector(`[data-field="${every}"]`).hidden = every !== this.every.value;
  }

  showProblem(problem) {
    setText(this.problem, problem);
    this.problem.hidden = !problem;
  }

  async submit() {
    const cron = cronOf({ every: this.every.value, time: this.time.value, minute: this.minute.value, cron: this.cron.value });
    if (cron === null) {
      this.showProblem(t("Enter a time."));
      return;
    }
    const parameters = { last_hours: Number(this.period.value) || null, topic: this.topic.value.trim() || null, consumer_group: this.group.value.trim() || null, broker: this.broker.value.trim() || null };
    const path = this.editing ? `${this.path}/${this.editing.id}` : this.path;
    try {
      await this.act(this.save, () => request(this.editing ? "PATCH" : "POST", path, { cron, parameters }), { throws: true });
      this.close();
    } catch (error) {
      this.showProblem(error.message);
    }
  }
}

const periodText = (hours, wholeRange) => hours === null ? wholeRange : PERIODS[hours] ?? t("the last {0} hours", hours);

/** "At 02:30 AM UTC: the last 24 hours, topic orders". */
export function scheduleText(schedule, wholeRange) {
  const { last_hours: hours, topic, consumer_group: group, broker } = schedule.parameters;
  return t("{0}: {1}", whenText(schedule), [periodText(hours, wholeRange), topic && t("topic {0}", topic), group && t("group {0}", group), broker && t("broker {0}", broker)].filter(Boolean).join(t(", ")));
}

function showRow(row, schedule, wholeRange) {
  row.schedule = schedule;
  const box = row.querySelector("input");
  if (!box.disabled) box.checked = schedule.enabled;
  setText(row.querySelector('[data-part="when"]'), scheduleText(schedule, wholeRange));
  setAttribute(row, "data-enabled", schedule.enabled);
  const [change, remove] = row.querySelectorAll("button");
  setAttribute(change, "aria-label", t("Change the schedule “{0}”", whenText(schedule)));
  setAttribute(remove, "aria-label", t("Remove the schedule “{0}”", whenText(schedule)));
}
