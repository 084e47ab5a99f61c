package glassmq.compat;

import com.alibaba.fastjson2.JSON;
import java.util.LinkedHashMap;
import java.util.Map;

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
        Main.OUT.println(JSON.toJSONString(object(namesAndValues)));
        Main.OUT.flush();
    }
}
