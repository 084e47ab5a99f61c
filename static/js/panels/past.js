/** The slider of the live page that goes back to an earlier board: one of the last 10 minutes of the engine. */

import { panel, setText } from "../dom.js";
import { dateTimeSeconds, plural } from "../text/format.js";
import { requestNumbers } from "../http.js";
import { queryOf, writeQuery } from "../search_state.js";
import { t } from "../text/translate.js";

const AGAIN_MS = 10_000;

/** `show(board)` is called with a board as the API has it, and with null for now. */
export function pastPanel({ show }) {
  const { part } = panel("past");
  const slider = part("slider");
  let linked = Number(queryOf("at")); // the moment in the address, until the kept boards are known; 0 if there is none
  let boards = [];
  let shown = null;
  let asked = 0;
  let loading = false;

  /** Reads which boards are kept. The place of the slider stays at its moment. */
  async function look() {
    if (document.hidden || loading) return;
    try {
      ({ boards } = await requestNumbers("/history/boards"));
    } catch {
      return; // the outage banner says why; the next look is soon
    }
    if (linked) goToLinked();
    else place();
  }

  /** Shows the board that the address names. If it is not kept any more, the page stays with the present and says so. */
  function goToLinked() {
    const at = boards.findIndex(({ at_ms: ms }) => ms >= linked);
    const isKept = boards.length > 0 && at >= 0 && linked >= boards[0].at_ms;
    if (isKept) go(at).then(place);
    else {
      place();
      setText(part("when"), t("now; the board of {0} is not kept any more", dateTimeSeconds(linked)));
    }
    linked = 0;
  }

  function place() {
    const at = shown === null ? boards.length : boards.findIndex(({ at_ms: ms }) => ms >= shown);
    slider.max = String(boards.length);
    slider.value = String(at < 0 ? boards.length : at);
    slider.disabled = boards.length === 0;
    describe(boards[Number(slider.value)] ?? null);
  }

  function describe(board) {
    const time = (ms) => dateTimeSeconds(ms);
    const oldest = boards.length ? t("now; drag to go back to {0}", time(boards[0].at_ms)) : t("now; nothing is kept yet");
    const text = board ? `${time(board.at_ms)} · ${plural(board.holds_total, "{0} held pull", "{0} held pulls")}` : shown !== null ? time(shown) : oldest;
    setText(part("when"), text);
    slider.setAttribute("aria-valuetext", text);
    part("back").hidden = shown === null;
  }

  async function go(index) {
    asked += 1;
    const own = asked;
    const board = boards[index] ?? null;
    shown = board?.at_ms ?? null;
    describe(board);
    if (!board) {
      show(null);
      return;
    }
    loading = true;
    try {
      const snapshot = await requestNumbers(`/history/boards/${board.at_ms}`);
      if (own === asked) show(snapshot);
    } catch (error) {
      if (own === asked) {
        shown = null;
        show(null);
        place();
        setText(part("when"), error.message);
      }
    }
    if (own === asked) loading = false;
  }

  slider.addEventListener("input", () => go(Number(slider.value)));
  slider.addEventListener("change", () => writeQuery({ at: String(boards[Number(slider.value)]?.at_ms ?? "") }));
  part("back").addEventListener("click", () => {
    slider.value = slider.max;
    go(boards.length);
    writeQuery({ at: "" });
    slider.focus();
  });
  window.setInterval(look, AGAIN_MS);
  look();
}
