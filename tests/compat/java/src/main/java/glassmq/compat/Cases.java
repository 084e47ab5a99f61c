package glassmq.compat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The cases by name, in the order in which they were written. */
final class Cases {
    private final Map<String, Case> all = new LinkedHashMap<>();
    private final List<String> slow = new ArrayList<>();
    private final List<String> alone = new ArrayList<>();

    static Cases all() {
        Cases cases = new Cases();
        ProducerCases.addTo(cases);
        BatchQueueCases.addTo(cases);
        PushCases.addTo(cases);
        GroupCases.addTo(cases);
        RetryCases.addTo(cases);
        PopCases.addTo(cases);
        OrderlyCases.addTo(cases);
        DelayCases.addTo(cases);
        RequestCases.addTo(cases);
        TransactionCases.addTo(cases);
        LitePullCases.addTo(cases);
        PullCases.addTo(cases);
        QueryCases.addTo(cases);
        TransportCases.addTo(cases);
        CodeCases.addTo(cases);
        HoldCases.addTo(cases);
        AdminCases.addTo(cases);
        return cases;
    }

    void add(String name, Case test) {
        if (all.put(name, test) != null) {
            throw new IllegalArgumentException("two cases are called " + name);
        }
    }

    /** A case that takes longer than half a minute, and is run only when asked for. */
    void addSlow(String name, Case test) {
        add(name, test);
        slow.add(name);
    }

    /** A case for a broker with other options: it is run only when its whole name is given. */
    void addAlone(String name, Case test) {
        add(name, test);
        alone.add(name);
    }

    /** Names that contain one of the words; all of them when there are none. */
    List<String> chosen(List<String> words, boolean withSlow) {
        List<String> chosen = new ArrayList<>();
        for (String name : all.keySet()) {
            boolean isWanted = alone.contains(name) ? words.contains(name)
                : words.stream().anyMatch(name::contains) || words.isEmpty() && (withSlow || !slow.contains(name));
            if (isWanted) {
                chosen.add(name);
            }
        }
        return chosen;
    }

    Case get(String name) {
        return all.get(name);
    }
}
