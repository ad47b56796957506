import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Counts the distinct people of each place over a sliding window with Flink SQL, and prints one line of JSON.
 *
 * The time of a run over a single event is subtracted, because starting a job is not part of the work. A first run,
 * over all events, is not measured: it loads and compiles the classes.
 */
public class FlinkDistinct {
    public static void main(String[] arguments) {
        String single = arguments[0], all = arguments[1], windowHours = arguments[2], slideHours = arguments[3];
        try {
            measure(all, windowHours, slideHours);
            double start = measure(single, windowHours, slideHours);
            double seconds = measure(all, windowHours, slideHours) - start;
            System.out.println("{\"seconds\": " + seconds + ", \"events\": " + arguments[4] + "}");
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static double measure(String file, String windowHours, String slideHours) throws Exception {
        TableEnvironment table = TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().build());
        table.getConfig().set("parallelism.default", "1");
        table.executeSql("CREATE TABLE events (person STRING, place STRING, millis BIGINT, "
            + "ts AS TO_TIMESTAMP_LTZ(millis, 3), WATERMARK FOR ts AS ts) "
            + "WITH ('connector' = 'filesystem', 'path' = 'file://" + file + "', 'format' = 'csv')");
        table.executeSql("CREATE TABLE counts (place STRING, window_until TIMESTAMP(3), people BIGINT) "
            + "WITH ('connector' = 'blackhole')");
        long began = System.nanoTime();
        table.executeSql("INSERT INTO counts SELECT place, window_end, COUNT(DISTINCT person) FROM TABLE(HOP("
            + "TABLE events, DESCRIPTOR(ts), INTERVAL '" + slideHours + "' HOUR, INTERVAL '" + windowHours
            + "' HOUR(3))) GROUP BY place, window_start, window_end").await();
        return (System.nanoTime() - began) / 1e9;
    }
}
