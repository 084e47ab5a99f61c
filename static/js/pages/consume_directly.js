/** The dialog that has one client consume one message now. */

import { dialog } from "../dialogs.js";
import { el, setText } from "../dom.js";
import { requestOfAll, requestPages } from "../http.js";
import { askable, clientOption, consumedText, groupOfTopic, groupsNote, messageLine } from "../text/consume_text.js";

/** `open(message)` asks for a group, unless the message's topic is that of one group, and for one of its clients. */
export function consumeDialog() {
  let message = null;
  const list = async (path, name) => (await requestPages(path, name, Infinity, ask))[name];
  const ask = (method, path, body) =>
    requestOfAll(method, `${path}${path.includes("?") ? "&" : "?"}broker=${encodeURIComponent(message.broker)}`, body);

  const box = dialog("consume-dialog", {
    keepsOpen: true,
    canSubmit: ({ elements }) => elements.client.value !== "",
    async submit({ elements }, signal) {
      box.part("result").hidden = true;
      const { offset_message_id: id, topic } = message;
      const answer = await ask("POST", `/messages/${encodeURIComponent(id)}/consume-directly?topic=${encodeURIComponent(topic)}`,
        { group: elements.group.value, client_id: elements.client.value });
      if (!signal.aborted) show(consumedText(answer));
    },
  });
  const { group, client } = box.form.elements;

  function show({ tone, sentence, remark }) {
    box.part("result").dataset.tone = tone;
    setText(box.part("sentence"), sentence);
    setText(box.part("remark"), remark);
    box.part("remark").hidden = !remark;
    box.part("result").hidden = false;
  }

  async function showClients() {
    client.replaceChildren();
    if (!group.value) return;
    const { able, note } = askable(await list(`/clients?group=${encodeURIComponent(group.value)}`, "clients"), group.value);
    client.replaceChildren(...able.map((entry) => el("option", { value: entry.client_id }, clientOption(entry))));
    setText(box.part("clients-note"), note);
  }

  group.addEventListener("change", () => box.run(showClients));
  return {
    open(chosen) {
      message = chosen;
      box.open();
      group.replaceChildren();
      client.replaceChildren();
      box.part("result").hidden = true;
      setText(box.part("clients-note"), "");
      setText(box.part("summary"), messageLine(message));
      const own = groupOfTopic(message.topic);
      box.part("groups").hidden = own !== "";
      return box.run(async () => {
        const groups = own ? [own] : await list(`/topics/${encodeURIComponent(message.topic)}/groups?limit=10000`, "groups");
        group.replaceChildren(...groups.map((name) => el("option", { value: name }, name)));
        setText(box.part("clients-note"), groupsNote(groups, message.topic));
        if (groups.length) await showClients();
      });
    },
  };
}
