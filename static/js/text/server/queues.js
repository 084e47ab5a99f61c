/** What the broker says of a group's queues, in its words. The tests compare them with the server's. Pure. */

import { noop } from "../translate.js";

export const QUEUES = [
  noop("a client"),
  noop("a member"),
  noop("not known for an attached broker: RocketMQ does not report which pulls it holds"),
  noop("the group may not consume: its consumeEnable is off"),
  noop("the topic may not be read: its perm does not contain 4 (read)"),
  noop("{0} waits at offset {1}; its filter accepts none of {2} newer messages"),
  noop("{0} waits at offset {1}, the queue's end"),
  noop("{0} waits at offset {1}, the queue's end, for a message that {2} accepts"),
  noop("the answer to the next pull of {0} will move it to offset {1}"),
  noop("the group has no member"),
  noop("no member subscribes to the topic"),
  noop("{0} has it locked; {1} waits for the lock"),
  noop("{0} waits to pop from any queue"),
  noop("{0} waits to pop from this queue"),
  noop("{0} popped {1} s ago"),
  noop("{0}; {1} popped message is not acknowledged"),
  noop("{0}; {1} popped messages are not acknowledged"),
  noop("{0} has sent no heartbeat for {1}: its process is frozen or its network is cut"),
  noop("{0} pulled {1} s ago; it is not a member, so it may or may not pull again"),
  noop("{0}'s connection is closed; it pulled {1} s ago"),
  noop("{0} has not pulled from it yet"),
  noop("{0} pulled {1} s ago; its permits are used up, so it does not pull now"),
  noop("{0} pulled a moment ago and will pull again"),
  noop("{0} pulled {1} s ago; it may be busy with the messages that it has"),
  noop("{0} pulled {1} s ago and has not pulled since: it is suspended, frozen, cut off, or busy with its messages"),
];
