package glassmq.compat;

/** What RocketMQ's dashboards ask and change, by the calls of {@code MQAdminExt} that they use. */
final class AdminCases {
    private AdminCases() {
    }

    static void addTo(Cases cases) {
        // not method references, which would load the class: it needs RocketMQ 5
        cases.add("admin.cluster", world -> new DashboardCalls(world).cluster());
        cases.add("admin.topics_named_after_cluster_and_broker", world -> new DashboardCalls(world).ownTopics());
        cases.add("admin.topics", world -> new DashboardCalls(world).topics());
        cases.add("admin.groups", world -> new DashboardCalls(world).groups());
        cases.add("admin.consumers", world -> new DashboardCalls(world).consumers());
        cases.add("admin.producers", world -> new DashboardCalls(world).producers());
        cases.add("admin.messages", world -> new DashboardCalls(world).messages());
        cases.add("admin.dead_letters", world -> new DashboardCalls(world).deadLetters());
        cases.add("admin.statistics", world -> new DashboardCalls(world).statistics());
        cases.add("admin.options", world -> new DashboardCalls(world).options());
    }
}
