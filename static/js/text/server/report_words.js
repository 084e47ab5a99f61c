/** The sentences of reports, in the server's words. The tests compare them with the server's. Pure. */

import { noop } from "../translate.js";

export const REPORT_WORDS = [
  noop("less than 1 µs"), noop("less than 1 ms"), noop("under 0.1 %"), noop("a client without a group"),
  noop("{0} ({1}) went into {2}, {3} of the messages into {4}."),
  noop("The busiest minute was {0}, with {1}."),
  noop("The busiest {0} began at {1}, with {2}."),
  noop("{0} a waiting consumer was given messages."),
  noop("{0} a waiting consumer was given messages. Once they had arrived it had its answer within {1} in half of the cases, within {2} in 99 %."),
  noop("A later look, not an arrival, gave the consumer its messages {0}."),
  noop("Slowest from stored to answered is {0} on {1}: 99 % within {2}."),
  noop("{0} waited: {1}."),
  noop("Half of the pulls waited for no longer than {0}, 99 % for no longer than {1}."),
  noop("{0} waits longest on {1}, half of the time for {2} or more."),
  noop("{0} came, and none was empty."),
  noop("{0} of {1} brought no message."),
  noop("Empty answers came most often {0} ({1}); the topic with the most is {2} ({3})."),
  noop("to pulls that did not wait"),
  noop("after a wait without a message"),
  noop("to holds that were ended by {0}"),
  noop("Consumers made {0}."),
  noop("Consumers made {0}, and half of the messages were on their way within {1} of their arrival."),
  noop("Asking each second they would have made at most {0}, {1} times as many."),
  noop("Asking each second they would have made at most {0}, {1} times as many, and half of the messages would have been {2} late or more."),
  noop("Asking every 100 ms they would have made at most {0}, {1} times as many."),
  noop("Asking every 100 ms they would have made at most {0}, {1} times as many, and half of the messages would have been {2} late or more."),
  noop("The price: {0} pulls lay open on average."),
  noop("At the end, groups still had {0} to commit."),
  noop("At the end, groups still had {0} to commit, and the oldest had waited for {1}."),
  noop("No group is falling behind, stalled or stopped."),
  noop("Farthest behind was {0} on {1}, by {2}."),
  noop("Farthest behind was {0} on {1}, by {2} and {3}."),
  noop("Queue {0} of {1} has {2} of its messages, {3} times what a queue has on average; no topic with at least {4} messages a queue is less even."),
  noop("Queue {0} at {1} of {2} has {3} of its messages, {4} times what a queue has on average; no topic with at least {5} messages a queue is less even."),
  noop("No topic with two or more queues has at least {0} messages a queue."),
  noop("Client {0} is given {1} of what {2} gets of {3}, {4} times what a client gets on average; no group with at least {5} messages a client is less even."),
  noop("No group with two or more clients has at least {0} messages a client."),
  noop("Half of the messages reach a consumer within {0} of being stored, 99 % within {1}."),
  noop("99 % are stored within {0} of being born; for copies of delayed and retried messages, their delay is in it."),
  noop("{0} came back, {1} died; most came from {2}, of {3}."),
  noop("No message came back, and none died."),
  noop("{0} came, half within {1} of the due time, 99 % within {2}."),
  noop("{0} came, half within {1} of the due time, all within {2}."),
  noop("{0} came, within {1} of the due time."),
  noop("No client is much slower than its group."),
  noop("Slower than the group: {0}."),
  noop("{0} ({1}) on {2}."),
  noop("Long polling saved at most {0} compared with asking each second; {1} of the answers were empty."),
  noop("Groups were behind by {0} at most, and are by {1} at the end."),
  noop("{0} came back, {1} died."),
  noop("{0} came back, {1} died; slower than the group: {2}."),
];

/** What stands in lists, between semicolons. */
export const LISTED = [
  noop("{0} until messages arrived"),
  noop("{0} without a message, until their time was up"),
  noop("{0} until their client went away"),
  noop("{0} until a filter passed over what came"),
  noop("{0} until a later look found messages"),
  noop("{0} for the short time that is waited without long polling"),
  noop("{0} until the broker was stopped"),
  noop("{0} until the broker gave them up, as when an offset is reset"),
  noop("{0} until the broker refused them, as the group or topic was locked, or the subscription ended"),
  noop("{0} until something else ended them"),
  noop("{0} on {1} is {2}, {3} behind"),
  noop("{0} on {1}, where half of its answers take {2} or more"),
];
export const AND_MORE = noop("{0} and {1} more");

/** A number and what it counts: "1 message", "2,000 messages". */
export const COUNTED = [
  noop("{0} message"), noop("{0} messages"), noop("{0} topic"), noop("{0} topics"), noop("{0} time"), noop("{0} times"),
  noop("{0} pull"), noop("{0} pulls"), noop("{0} answer"), noop("{0} answers"), noop("{0} request"), noop("{0} requests"),
  noop("{0} delayed message"), noop("{0} delayed messages"), noop("{0} day"), noop("{0} days"), noop("{0} client"), noop("{0} clients"),
];
