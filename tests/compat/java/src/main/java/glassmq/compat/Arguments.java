package glassmq.compat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** {@code --name value} pairs, and words without a name. */
final class Arguments {
    final List<String> words = new ArrayList<>();
    private final Map<String, String> named = new HashMap<>();

    Arguments(String[] given) {
        for (int i = 0; i < given.length; i++) {
            if (given[i].startsWith("--")) {
                named.put(given[i].substring(2), given[++i]);
            } else {
                words.add(given[i]);
            }
        }
    }

    String text(String name, String otherwise) {
        return named.getOrDefault(name, otherwise);
    }

    String text(String name) {
        if (!named.containsKey(name)) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return named.get(name);
    }

    int number(String name, int otherwise) {
        return Integer.parseInt(named.getOrDefault(name, String.valueOf(otherwise)));
    }
}
