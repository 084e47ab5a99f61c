package glassmq.compat;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** Lines of JSON on the standard output, which carries nothing else. */
final class Json {
    private Json() {
    }

    static Map<String, Object> object(Object... namesAndValues) {
        Map<String, Object> members = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            members.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return members;
    }

    static synchronized void print(Object... namesAndValues) {
        Main.OUT.println(RemotingSerializable.toJson(object(namesAndValues), false));
        Main.OUT.flush();
    }
}
