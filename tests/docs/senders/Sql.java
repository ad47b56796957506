import java.sql.DriverManager;

/** Runs statements of standard input: java Sql.java URL */
public class Sql {
    public static void main(String[] args) throws Exception {
        var statements = new String(System.in.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        try (var connection = DriverManager.getConnection(args[0]); var statement = connection.createStatement()) {
            statement.execute(statements);
        }
    }
}
