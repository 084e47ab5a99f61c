/** What an operator does to a group: reset its offsets, or delete it. */

import { keepBroker } from "../brokers.js";
import { dialog } from "../dialogs.js";
import { el, setText } from "../dom.js";
import { isRetryTopic } from "../text/explain_group.js";
import { request } from "../http.js";
import { changeText, changesText, continuesText, resetBody } from "../text/offset_changes.js";
import { t } from "../text/translate.js";

const MOST_CHANGES = 200;

export function groupActions(group) {
  const path = `/groups/${encodeURIComponent(group)}`;
  let answer = null;
  resetDialog(path, () => answer);
  deleteDialog(path, group);
  return {
    render(view) {
      answer = view.answer;
      for (const button of document.querySelectorAll(".group-actions [data-opens]")) button.disabled = answer === null;
    },
  };
}

function resetDialog(path, answer) {
  let previewed = null; // the request that was previewed

  const { part, form, run, check } = dialog("reset-dialog", {
    opened() {
      const topics = [...new Set(answer().queues.map(({ topic }) => topic))].sort((a, b) => isRetryTopic(a) - isRetryTopic(b));
      form.elements.topic.replaceChildren(...topics.map((topic) => el("option", { value: topic }, topic)));
      const { text, isUndone } = continuesText(answer());
      setText(part("members"), text);
      part("members").className = isUndone ? "dialog-problem" : "quiet";
      showFields();
    },
    canSubmit: () => previewed !== null,
    submit: () => request("POST", `${path}/offsets/reset`, previewed),
  });

  function showFields() {
    const { topic, to, queue } = form.elements;
    const ids = answer().queues.filter((entry) => entry.topic === topic.value).map(({ queue_id: id }) => id);
    const shown = ids.join();
    if (queue.dataset.ids !== shown) {
      queue.dataset.ids = shown;
      queue.replaceChildren(el("option", { value: "" }, t("all queues")), ...[...new Set(ids)].map((id) => el("option", { value: id }, t("queue {0}", id))));
    }
    part("time").hidden = to.value !== "time";
    part("offset").hidden = to.value !== "offset";
  }

  function forget() {
    previewed = null;
    part("preview").replaceChildren();
    setText(part("summary"), "");
    showFields();
    check();
  }

  form.addEventListener("input", forget);
  form.addEventListener("reset", () => queueMicrotask(forget));
  part("preview-button").addEventListener("click", () => run(async () => {
    const wanted = resetBody(Object.fromEntries(new FormData(form)));
    const { changes } = await request("POST", `${path}/offsets/reset`, { ...wanted, dry_run: true });
    previewed = wanted;
    setText(part("summary"), changesText(changes));
    part("preview").replaceChildren(...changes.slice(0, MOST_CHANGES).map((change) => el("li", {}, changeText(change))));
  }));
}

function deleteDialog(path, group) {
  dialog("delete-dialog", {
    canSubmit: (form) => form.elements.name.value === group,
    async submit() {
      await request("DELETE", path);
      location.assign(keepBroker("/groups", location.href));
    },
  });
}
