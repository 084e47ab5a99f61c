/** Why the broker refuses pulls or messages, in the server's words. The tests compare them with the server's. Pure. */

import { noop } from "../translate.js";

export const REFUSALS = [
  noop("broker {0} may not be read"),
  noop("group {0} may not consume"),
  noop("group {0} may not consume by broadcasting"),
  noop("group {0} is forbidden to read topic {1}"),
  noop("group {0} has no member on this broker: no client sends heartbeats for it"),
  noop("group {0} does not subscribe to topic {1}: its members must all subscribe to the same topics"),
  noop("the client's subscription of group {0} to topic {1} is newer than the broker's: its heartbeat has not arrived yet"),
  noop("there is no filter of group {0} for topic {1}: {2}"),
  noop("topic {0} may not be read"),
  noop("topic {0} has no queue {1} to read from; it has 0 to {2}"),
  noop("the broker's limit of held pulls is reached; wait for one to be answered"),
  noop("this connection's limit of held pulls is reached; wait for one to be answered"),
  noop("litePullMessageEnable is off: lite pull consumers may not pull from this broker"),
  noop("the broker failed on this request; see its log"),
  noop("the broker is shutting down"),
  noop("the disk is {0} % full; messages are accepted again below {1} %"),
  noop("the disk accepts no more messages: {0}"),
  noop("the disk accepts no more messages: {0} (recovery waits for space too)"),
  noop("recovery is being finished; try again soon"),
  noop("a queue cannot be written ({0}); mend the disk, then restart the broker"),
  noop("the index cannot be written ({0}); mend the disk, then restart the broker"),
  noop("a flush failed ({0}); mend the disk, then restart the broker"),
];
