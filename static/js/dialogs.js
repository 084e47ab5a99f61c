/** Dialogs that ask before something is changed. */

import { setText } from "./dom.js";

/**
 * The dialog with that id. `submit(form, signal)` promises the change; its error is shown in the dialog, which is closed
 * when it succeeds, unless it `keepsOpen` to show the result. `signal` is aborted when the dialog is closed before. A
 * button with data-opens="id" opens the dialog; `opened(form)` is called before. After every input, `canSubmit(form)`
 * returns whether the change may be made, or `missing(form)` returns what is missing: a sentence, which the part of this
 * name shows, or "".
 */
export function dialog(id, { submit, opened = () => {}, canSubmit = () => true, missing = () => "", keepsOpen = false }) {
  const box = document.getElementById(id);
  const form = box.querySelector("form");
  const part = (name) => box.querySelector(`[data-part="${name}"]`);
  const button = form.querySelector('[type="submit"]');
  let busy = false;
  let opening = new AbortController();

  const check = () => {
    const sentence = missing(form);
    button.disabled = busy || sentence !== "" || !canSubmit(form);
    if (part("missing")) setText(part("missing"), sentence);
  };
  const problem = (text) => {
    setText(part("problem"), text);
    part("problem").hidden = !text;
  };

  /** Runs `work(signal)` with the buttons disabled. Shows its error; returns whether there was none. The dialog may be
   * closed, and opened for something else, before the work ends: then nothing is shown, and the answer is false. */
  async function run(work) {
    const { signal } = opening;
    busy = true;
    check();
    try {
      await work(signal);
      if (!signal.aborted) problem("");
      return !signal.aborted;
    } catch (error) {
      if (!signal.aborted) problem(error.message);
      return false;
    } finally {
      busy = false;
      check();
    }
  }

  function open() {
    opening = new AbortController();
    form.reset();
    problem("");
    opened(form);
    check();
    box.showModal();
  }

  for (const opener of document.querySelectorAll(`[data-opens="${id}"]`)) opener.addEventListener("click", open);
  part("cancel").addEventListener("click", () => box.close());
  box.addEventListener("close", () => opening.abort());
  form.addEventListener("input", check);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!button.disabled && await run((signal) => submit(form, signal)) && !keepsOpen) box.close();
  });
  return { part, form, run, check, open, problem };
}
