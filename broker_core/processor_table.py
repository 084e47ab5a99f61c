"""Which function handles each command. RocketMQ's BrokerController.registerProcessor."""

from collections.abc import Callable
from typing import Any

from broker_core import commands
from broker_core.clock import Now
from broker_core.commands import Command, Reply
from broker_core.processors import (
    admin_broker,
    broker_runtime,
    client_manage,
    client_view,
    consume_stats,
    consumer_manage,
    group_view,
    lock_batch_mq,
    message_timeline,
    observe,
    pull_message,
    query_consume_queue,
    query_message,
    reset_offset,
    subscription_group,
)
from broker_core.processors.context import Context, Request
from broker_core.processors.ha import ha_connections
from broker_core.processors.pop import ack_message, peek_message, pop_long_polling, pop_message, query_assignment
from broker_core.processors.producers import reply_message
from broker_core.processors.slave import following, replicate, replicate_tables
from broker_core.processors.timer import recall_message
from broker_core.processors.why import group_facts, group_list, group_metrics, history_sample
from broker_core.walk import Steps, finish

Processor = Callable[[Context, Request, Now], Reply | None]
Walk = Callable[[Context, Request, Now], Steps[Reply]]

WALKS: dict[type[Command], Walk] = {
    commands.GetClients: client_view.get_clients,
    commands.GetConsumerConnections: client_view.get_consumer_connections,
    commands.GetProducerConnections: client_view.get_producer_connections,
    commands.QueryConsumerOffset: consumer_manage.query_consumer_offset,
    commands.GetConsumerGroups: group_list.get_consumer_groups,
    commands.GetConsumerGroup: group_view.get_consumer_group,
    commands.GetWaitingRetries: group_view.get_waiting_retries,
    commands.GetGroupFacts: group_facts.get_group_facts,
    commands.GetMetrics: group_metrics.get_metrics,
    commands.GetHistorySample: history_sample.get_history_sample,
    commands.GetSubscriptionGroups: subscription_group.get_subscription_groups,
    commands.GetTopics: admin_broker.get_topics,
    commands.GetQueues: admin_broker.get_queues,
    commands.ViewMessage: query_message.view_message,
    commands.ConsumeMessageDirectly: query_message.consume_message_directly,
    commands.QueryMessage: query_message.query_message,
    commands.QueryMessageByTime: query_message.query_message_by_time,
    commands.GetMessageTimeline: message_timeline.get_message_timeline,
    commands.GetTopicConfigs: admin_broker.get_topic_configs,
    commands.GetConsumeStats: consume_stats.get_consume_stats,
    commands.GetBrokerConsumeStats: consume_stats.get_broker_consume_stats,
    commands.QueryTopicConsumeByWho: consume_stats.query_topic_consume_by_who,
    commands.QueryConsumeTimeSpan: consume_stats.query_consume_time_span,
    commands.QueryCorrectionOffset: consume_stats.query_correction_offset,
    commands.GetAllConsumerOffset: consume_stats.get_all_consumer_offset,
    commands.GetHolds: observe.get_holds,
    commands.GetHoldTimeline: observe.get_hold_timeline,
    commands.GetEvents: observe.get_events,
    commands.GetPulls: observe.get_pulls,
}
"""Processors that answer in pieces (``walk.py``): questions about whole tables, or about one thing."""

PROCESSORS: dict[type[Command], Processor] = {
    commands.OpenConnection: client_manage.open_connection,
    commands.CloseConnection: client_manage.close_connection,
    commands.HeartBeat: client_manage.heart_beat,
    commands.UnregisterClient: client_manage.unregister_client,
    commands.CheckClientConfig: client_manage.check_client_config,
    commands.GetConsumerListByGroup: consumer_manage.get_consumer_list_by_group,
    commands.LockBatchMq: lock_batch_mq.lock_batch_mq,
    commands.UnlockBatchMq: lock_batch_mq.unlock_batch_mq,
    commands.RecallMessage: recall_message.recall_message,
    commands.GetTimerMetrics: recall_message.get_timer_metrics,
    commands.SendReplyMessage: reply_message.send_reply_message,
    commands.PullMessage: pull_message.pull_message,
    commands.CancelPull: pull_message.cancel_pull,
    commands.PopMessage: pop_message.pop_message,
    commands.ChangeInvisibleTime: ack_message.change_invisible_time,
    commands.Notification: pop_long_polling.notification,
    commands.PeekMessage: peek_message.peek_message,
    commands.PollingInfo: pop_long_polling.polling_info,
    commands.UpdateConsumerOffset: consumer_manage.update_consumer_offset,
    commands.ResetConsumerOffset: reset_offset.reset_consumer_offset,
    commands.QueryOffset: consumer_manage.query_offset,
    commands.ReportWindows: group_facts.report_windows,
    commands.UpdateSubscriptionGroup: subscription_group.update_subscription_group,
    commands.DeleteSubscriptionGroup: subscription_group.delete_subscription_group,
    commands.GetTopic: admin_broker.get_topic,
    commands.UpdateAndCreateTopic: admin_broker.update_and_create_topic,
    commands.DeleteTopic: admin_broker.delete_topic,
    commands.SearchOffset: admin_broker.search_offset,
    commands.GetMaxOffset: admin_broker.get_max_offset,
    commands.GetMinOffset: admin_broker.get_min_offset,
    commands.GetEarliestMsgStoreTime: admin_broker.get_earliest_msg_store_time,
    commands.GetBroker: admin_broker.get_broker,
    commands.UpdateBrokerConfig: admin_broker.update_broker_config,
    commands.UpdateAndCreateTopicList: admin_broker.update_and_create_topic_list,
    commands.GetTopicStats: admin_broker.get_topic_stats,
    commands.GetBrokerConfig: admin_broker.get_broker_config,
    commands.UpdateSubscriptionGroupList: subscription_group.update_subscription_group_list,
    commands.UpdateGroupForbidden: subscription_group.update_group_forbidden,
    commands.QueryTopicsByConsumer: consume_stats.query_topics_by_consumer,
    commands.QuerySubscriptionByConsumer: consume_stats.query_subscription_by_consumer,
    commands.CloneGroupOffset: consume_stats.clone_group_offset,
    commands.GetAllDelayOffset: broker_runtime.get_all_delay_offset,
    commands.GetBrokerRuntimeInfo: broker_runtime.get_broker_runtime_info,
    commands.ViewBrokerStatsData: broker_runtime.view_broker_stats_data,
    commands.DeleteExpiredCommitLog: broker_runtime.delete_expired_commit_log,
    commands.QueryConsumeQueue: query_consume_queue.query_consume_queue,
    commands.QueryAssignment: query_assignment.query_assignment,
    commands.SetMessageRequestMode: query_assignment.set_message_request_mode,
    commands.GetMessageRequestModes: query_assignment.get_message_request_modes,
    commands.GetHold: observe.get_hold,
    commands.GetSnapshot: observe.get_snapshot,
    commands.ReportSlaveMaxOffset: ha_connections.report_slave_max_offset,
    commands.RemoveSlave: ha_connections.remove_slave,
    commands.GetAttached: following.get_attached,
    commands.AppendToCommitLog: following.not_followed,
    commands.ReplicateTables: following.not_followed,
    commands.ReplicateMember: following.not_followed,
    commands.ReportFollowing: following.not_followed,
    commands.GetLogEnd: following.not_followed,
    commands.ReplicatePulls: following.not_followed,
    commands.GetConsumerRunningInfo: following.no_clients,  # answered outside the engine where clients can be asked
}
"""The processor of every command but those in ``GATHERED``."""


def _in_one_turn(walk: Walk) -> Processor:
    """A processor that answers with all pieces in one turn, for questions that are narrowed to one thing."""
    return lambda context, request, now: finish(walk(context, request, now))


PROCESSORS.update((kind, _in_one_turn(walk)) for kind, walk in WALKS.items())

GATHERED: frozenset[type[Command]] = frozenset(
    (commands.SendMessage, commands.ConsumerSendMsgBack, commands.AckMessage, commands.EndTransaction)
)
"""Commands that store messages: those of a batch are stored as one block of each kind (``gathered_commands.py``)."""

FOLLOWER_COMMANDS: frozenset[type[Command]] = frozenset(WALKS) | {
    commands.OpenConnection,
    commands.CloseConnection,
    commands.UnregisterClient,
    commands.CheckClientConfig,
    commands.GetConsumerListByGroup,
    commands.PullMessage,
    commands.CancelPull,
    commands.QueryOffset,
    commands.GetTopic,
    commands.SearchOffset,
    commands.GetMaxOffset,
    commands.GetMinOffset,
    commands.GetEarliestMsgStoreTime,
    commands.GetBroker,
    commands.UpdateBrokerConfig,
    commands.GetTopicStats,
    commands.GetBrokerConfig,
    commands.QueryTopicsByConsumer,
    commands.QuerySubscriptionByConsumer,
    commands.GetAllDelayOffset,
    commands.GetBrokerRuntimeInfo,
    commands.ViewBrokerStatsData,
    commands.DeleteExpiredCommitLog,
    commands.QueryConsumeQueue,
    commands.GetMessageRequestModes,
    commands.GetHold,
    commands.GetSnapshot,
    commands.GetAttached,
    commands.GetConsumerRunningInfo,
}
"""The commands that an engine that follows another broker's log carries out as any other engine does. It refuses all
others, so that a new command cannot change a copy by accident."""

WAITS_FOR_DISK: dict[type[Command], Callable[[Any], bool]] = {
    commands.RecallMessage: lambda command: True,
    commands.ChangeInvisibleTime: lambda command: True,
}
"""Whether the answer to a command keeps the promise of flushDiskType, as that to a send does."""

FOLLOWER_PROCESSORS: dict[type[Command], Processor] = {
    **{kind: PROCESSORS[kind] if kind in FOLLOWER_COMMANDS else following.refuse for kind in PROCESSORS},
    **dict.fromkeys(GATHERED, following.refuse),
    commands.AppendToCommitLog: replicate.append_to_commit_log,
    commands.ReplicateTables: replicate_tables.replicate_tables,
    commands.ReplicateMember: replicate_tables.replicate_member,
    commands.ReplicatePulls: replicate_tables.replicate_pulls,
    commands.ReportFollowing: following.report_following,
    commands.GetLogEnd: replicate.get_log_end,
}
"""The processor of every command in such an engine."""
