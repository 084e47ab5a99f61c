/** The forms of rules, channels and silences. */

import { KINDS, STATES, VERDICTS, VERDICT_SEVERITIES, figureChoices, shownThreshold, storedThreshold } from "../text/alerts_text.js";
import { dialog } from "../dialogs.js";
import { el, setText } from "../dom.js";
import { requestOfAll } from "../http.js";
import { t } from "../text/translate.js";
import { word } from "../text/words.js";

const SECRETS = { webhook: t("Bearer token, if the receiver asks for one"), dingtalk: t("Signing secret, if the robot has one"), feishu: t("Signing secret, if the bot has one") };

function showField(form, name, isShown) {
  form.querySelector(`[data-field="${name}"]`).hidden = !isShown;
}

function checkboxes(name, choices, chosen) {
  return choices.map(([value, text]) => {
    const box = el("input", { type: "checkbox", name, value });
    box.checked = chosen.includes(value);
    return el("label", { class: "check" }, box, text);
  });
}

const checked = (form, name) => [...form.querySelectorAll(`[name="${name}"]:checked`)].map(({ value }) => value);

/** What a rule still needs before it can be saved, as a sentence; empty if nothing. */
function ruleMissing(form) {
  const { name, what, figure } = form.elements;
  const wrong = [...form.elements].find((field) => !field.checkValidity());
  if (name.value.trim() === "") return t("The rule needs a name.");
  if (wrong) return t("{0}: {1}", wrong.labels[0].textContent.trim(), wrong.validationMessage);
  if (what.value === "report" && figure.value === "") return t("The report has no figure yet. Run it first.");
  if (what.value === "group_state" && !checked(form, "states").length) return t("Choose a state.");
  return what.value === "group_verdict" && !checked(form, "verdicts").length && !checked(form, "verdict_severities").length
    ? t("Choose a verdict or a severity.") : "";
}

/** Adds a rule, or changes one: `open(rule)`, with null for a new one. */
export function ruleDialog({ channels, changed }) {
  let editing = null;
  const fields = (form) => {
    const kind = KINDS[form.elements.what.value];
    showField(form, "states", form.elements.what.value === "group_state");
    for (const name of ["verdicts", "verdict_severities"]) showField(form, name, form.elements.what.value === "group_verdict");
    showField(form, "threshold", kind.unit !== "");
    showField(form, "group", kind.group);
    showField(form, "topic", kind.topic);
    for (const name of ["report", "figure", "below"]) showField(form, name, form.elements.what.value === "report");
    setText(form.querySelector('[data-part="threshold-label"]'), kind === KINDS.report ? t("Threshold (in {0})", kind.unit) : t("Fires above this number of {0}", kind.unit));
  };
  let reports = [];
  const showFigures = ({ elements }, chosen = "") => {
    const choices = figureChoices(reports.find(({ name }) => name === elements.report.value), chosen);
    elements.figure.replaceChildren(...(choices.length ? choices : [["", t("none yet: run the report first")]]).map(([value, text]) => el("option", { value }, text)));
    if (chosen) elements.figure.value = chosen;
  };
  const showReports = async (form, rule) => {
    ({ reports } = await requestOfAll("GET", "/reports"));
    form.elements.report.replaceChildren(...reports.map(({ name, title }) => el("option", { value: name }, title)));
    if (rule.report) form.elements.report.value = rule.report;
    showFigures(form, rule.figure);
  };
  const box = dialog("rule-dialog", {
    missing: ruleMissing,
    opened(form) {
      const { elements } = form;
      const rule = editing ?? { what: "lag", states: ["stalled"], verdicts: [], verdict_severities: ["error"], threshold: 1000, channels: channels().map(({ id }) => id), severity: "warning", group: "*", topic: "*", for_s: 60, repeat_s: 14_400, send_resolved: true, name: "", report: "", figure: "", below: false };
      setText(box.part("title"), editing ? t("Change the rule {0}", editing.name) : t("Add a rule"));
      for (const name of ["name", "what", "group", "topic", "for_s", "severity"]) elements[name].value = rule[name];
      elements.threshold.value = shownThreshold(rule);
      elements.repeat_h.value = rule.repeat_s / 3600;
      elements.send_resolved.checked = rule.send_resolved;
      box.part("states").replaceChildren(...checkboxes("states", STATES.map((state) => [state, word(state)]), rule.states));
      box.part("verdicts").replaceChildren(...checkboxes("verdicts", VERDICTS.map((id) => [id, word(id)]), rule.verdicts));
      box.part("verdict_severities").replaceChildren(...checkboxes("verdict_severities", VERDICT_SEVERITIES.map((severity) => [severity, word(severity)]), rule.verdict_severities));
      const known = channels().map(({ id, name }) => [String(id), name]);
      box.part("channels").replaceChildren(...(known.length ? checkboxes("channels", known, rule.channels.map(String)) : [el("span", { class: "quiet" }, t("There is no channel yet."))]));
      elements.below.value = String(rule.below);
      fields(form);
      if (rule.what === "report") box.run(() => showReports(form, rule));
    },
    async submit(form) {
      const { elements } = form;
      const what = elements.what.value;
      const kind = KINDS[what];
      const rule = {
        name: elements.name.value.trim(), what, severity: elements.severity.value, for_s: Number(elements.for_s.value),
        states: what === "group_state" ? checked(form, "states") : [],
        verdicts: what === "group_verdict" ? checked(form, "verdicts") : [], verdict_severities: what === "group_verdict" ? checked(form, "verdict_severities") : [],
        threshold: kind.unit ? storedThreshold(what, Number(elements.threshold.value)) : 0,
        group: kind.group ? elements.group.value.trim() : "*", topic: kind.topic ? elements.topic.value.trim() : "*",
        report: what === "report" ? elements.report.value : "", figure: what === "report" ? elements.figure.value : "",
        below: what === "report" && elements.below.value === "true",
        channels: checked(form, "channels").map(Number), repeat_s: Math.round(Number(elements.repeat_h.value) * 3600),
        send_resolved: elements.send_resolved.checked,
      };
      await (editing ? requestOfAll("PATCH", `/alerts/rules/${editing.id}`, rule) : requestOfAll("POST", "/alerts/rules", rule));
      changed();
    },
  });
  box.form.elements.what.append(...Object.entries(KINDS).map(([value, { label }]) => el("option", { value }, label)));
  box.form.elements.what.addEventListener("change", () => {
    fields(box.form);
    if (box.form.elements.what.value === "report") box.run(() => showReports(box.form, editing ?? { report: "", figure: "" }));
  });
  box.form.elements.report.addEventListener("change", () => {
    showFigures(box.form);
    box.check();
  });
  return { open(rule) { editing = rule; box.open(); } };
}

/** What a channel still needs, like `ruleMissing`. A stored one keeps its URL, which is not shown. */
function channelMissing({ name, kind, url, recipients }, isStored) {
  if (name.value.trim() === "") return t("The channel needs a name.");
  if (kind.value === "email") return recipients.value.trim() === "" ? t("The channel needs a recipient.") : "";
  return url.value.trim() === "" && !isStored ? t("The channel needs a URL.") : "";
}

/** Adds a channel, or changes one. A change leaves URL and secret as they are where the field is empty. */
export function channelDialog({ changed }) {
  let editing = null;
  const fields = (form) => {
    const kind = form.elements.kind.value;
    for (const name of ["url", "secret"]) showField(form, name, kind !== "email");
    showField(form, "recipients", kind === "email");
    setText(form.querySelector('[data-part="secret-label"]'), SECRETS[kind] ?? "");
    form.querySelector('[data-part="kept"]').hidden = !editing || kind === "email";
  };
  const box = dialog("channel-dialog", {
    missing: ({ elements }) => channelMissing(elements, editing !== null),
    opened(form) {
      setText(box.part("title"), editing ? t("Change the channel {0}", editing.name) : t("Add a channel"));
      form.elements.name.value = editing?.name ?? "";
      form.elements.kind.value = editing?.kind ?? "webhook";
      form.elements.kind.disabled = editing !== null;
      form.elements.recipients.value = editing?.recipients.join(", ") ?? "";
      fields(form);
    },
    async submit({ elements }) {
      const body = { name: elements.name.value.trim() };
      if (elements.kind.value === "email") body.recipients = elements.recipients.value.split(",").map((address) => address.trim()).filter(Boolean);
      for (const name of ["url", "secret"]) if (elements.kind.value !== "email" && elements[name].value.trim()) body[name] = elements[name].value.trim();
      if (editing) await requestOfAll("PATCH", `/alerts/channels/${editing.id}`, body);
      else await requestOfAll("POST", "/alerts/channels", { ...body, kind: elements.kind.value });
      changed();
    },
  });
  box.form.elements.kind.addEventListener("change", () => fields(box.form));
  return { open(channel) { editing = channel; box.open(); } };
}

/** Adds a silence: `open({rule, group})` with what it is about. */
export function silenceDialog({ rules, changed }) {
  let about = { rule: null, group: "*" };
  const box = dialog("silence-dialog", {
    missing: ({ elements }) => elements.group.value.trim() === "" ? t("The silence needs a group, or * for all.") : "",
    opened({ elements }) {
      elements.rule.replaceChildren(el("option", { value: "" }, t("every rule")), ...rules().map(({ id, name }) => el("option", { value: id }, name)));
      elements.rule.value = rules().some(({ id }) => id === about.rule) ? about.rule : "";
      elements.group.value = about.group;
    },
    async submit({ elements }) {
      await requestOfAll("POST", "/alerts/silences", {
        rule: Number(elements.rule.value) || null, group: elements.group.value.trim(), comment: elements.comment.value.trim(),
        for_s: Number(elements.hours.value) * 3600,
      });
      changed();
    },
  });
  return { open(wanted) { about = wanted; box.open(); } };
}

/** Asks before something is deleted: `open(path, title, consequence)`. */
export function removeDialog({ changed }) {
  let wanted = { path: "", title: "", consequence: "" };
  const box = dialog("remove-dialog", {
    opened() {
      setText(box.part("title"), wanted.title);
      setText(box.part("consequence"), wanted.consequence);
    },
    async submit() {
      await requestOfAll("DELETE", wanted.path);
      changed();
    },
  });
  return { open(path, title, consequence) { wanted = { path, title, consequence }; box.open(); } };
}
