import io.debezium.converters.CloudEventsConverter;
import io.debezium.time.MicroTimestamp;
import java.util.Base64;
import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/** Prints an empty envelope, and a visit as the converters of Kafka Connect and Debezium write it, in base64. */
public class WriteFramings {
    public static void main(String[] args) throws Exception {
        var optional = MicroTimestamp.builder().optional().build();
        var schema = SchemaBuilder.struct().name("visits").optional()
            .field("person_id", Schema.STRING_SCHEMA).field("location_id", Schema.STRING_SCHEMA)
            .field("arrived_at", MicroTimestamp.schema()).field("left_at", optional).build();
        var visit = new Struct(schema).put("person_id", "p-17").put("location_id", "station-1")
            .put("arrived_at", 1_795_162_500_000_000L);
        var json = new JsonConverter();
        json.configure(Map.of("schemas.enable", true), false);
        print(json.fromConnectData("visits", schema, null));
        print(json.fromConnectData("visits", schema, visit));
        var source = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("version", Schema.STRING_SCHEMA).field("connector", Schema.STRING_SCHEMA)
            .field("name", Schema.STRING_SCHEMA).field("ts_ms", Schema.INT64_SCHEMA)
            .field("snapshot", Schema.OPTIONAL_STRING_SCHEMA).field("db", Schema.STRING_SCHEMA)
            .field("sequence", Schema.OPTIONAL_STRING_SCHEMA)
            .field("schema", Schema.STRING_SCHEMA).field("table", Schema.STRING_SCHEMA)
            .field("txId", Schema.OPTIONAL_INT64_SCHEMA).field("lsn", Schema.OPTIONAL_INT64_SCHEMA)
            .field("xmin", Schema.OPTIONAL_INT64_SCHEMA).build();
        var from = new Struct(source).put("version", "3").put("connector", "postgresql").put("name", "health")
            .put("ts_ms", 1L).put("db", "health").put("schema", "public").put("table", "visits").put("txId", 1L).put("lsn", 1L);
        var headers = new RecordHeaders();
        headers.add("source", json.fromConnectData("visits", source, from));
        headers.add("op", json.fromConnectData("visits", Schema.STRING_SCHEMA, "c"));
        for (var schemas : new boolean[] {true, false}) {
            var events = new CloudEventsConverter();
            events.configure(Map.of("metadata.source", "header,id:generate,type:generate,dataSchemaName:generate", "json.schemas.enable", schemas), false);
            print(events.fromConnectData("visits", headers, schema, visit));
        }
    }

    static void print(byte[] value) {
        System.out.println(Base64.getEncoder().encodeToString(value));
    }
}
