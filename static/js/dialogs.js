/** Dialogs that ask before something is changed. */

import { setText } from "./dom.js";

/**
 * The dialog with that id. `submit(form)` promises the change; its error is shown in the dialog, which is closed when it
 * succeeds. A button with data-opens="id" opens the dialog; `opened(form)` is called before. `canSubmit(form)` is asked
 * after every input whether the change may be made.
 */
export function dialog(id, { submit, opened = () => {}, canSubmit = () => true }) {
  const box = document.getElementById(id);
  const form = box.querySelector("form");
  const part = (name) => box.querySelector(`[data-part="${name}"]`);
  const button = form.querySelector('[type="submit"]');
  let busy = false;

  const check = () => {
    button.disabled = busy || !canSubmit(form);
  };
  const problem = (text) => {
    setText(part("problem"), text);
    part("problem").hidden = !text;
  };

  /** Runs `work` with the buttons disabled. Shows its error; returns whether there was none. */
  async function run(work) {
    busy = true;
    check();
    try {
      await work();
      problem("");
      return true;
    } catch (error) {
      problem(error.message);
      return false;
    } finally {
      busy = false;
      check();
    }
  }

  function open() {
    form.reset();
    problem("");
    opened(form);
    check();
    box.showModal();
  }

  for (const opener of document.querySelectorAll(`[data-opens="${id}"]`)) opener.addEventListener("click", open);
  part("cancel").addEventListener("click", () => box.close());
  form.addEventListener("input", check);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!button.disabled && await run(() => submit(form))) box.close();
  });
  return { part, form, run, check, open, problem };
}
