package interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Every Java client of the test in one JVM: reads one command a line, answers with its output and then a line
 * {@code ## ok} or {@code ## failed}. The argument is the list of nameservers for producers and consumers.
 */
public final class Client {
    private static final PrintStream OUT = System.out;
    private final String nameservers;
    private Traffic traffic;

    private Client(String nameservers) {
        this.nameservers = nameservers;
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client(args[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            boolean ok;
            try {
                ok = client.run(line.trim().split(" +"));
            } catch (Exception e) {
                OUT.println(e);
                ok = false;
            }
            OUT.println(ok ? "## ok" : "## failed");
            OUT.flush();
        }
        // The clients' threads are not all daemons.
        System.exit(0);
    }

    private boolean run(String[] words) throws Exception {
        switch (words[0]) {
            case "admin":
                return admin(Arrays.copyOfRange(words, 1, words.length));
            case "produce":
                return Exchange.produce(nameservers, words[1], Integer.parseInt(words[2]), OUT);
            case "consume":
                return Exchange.consume(nameservers, words[1], Integer.parseInt(words[2]), words[3], OUT);
            case "traffic-start":
                traffic = new Traffic(nameservers, words[1]);
                return traffic.start(OUT);
            case "traffic-stop":
                return traffic.stop(OUT);
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    /** Runs mqadmin inside this JVM. It exits with 0 whatever happens, so a stack trace is what tells a failure. */
    private static boolean admin(String[] args) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream capture = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        PrintStream err = System.err;
        System.setOut(capture);
        System.setErr(capture);
        try {
            MQAdminStartup.main0(args, null);
        } finally {
            System.setOut(OUT);
            System.setErr(err);
        }
        String text = bytes.toString(StandardCharsets.UTF_8);
        OUT.print(text);
        if (!text.endsWith("\n")) {
            OUT.println();
        }
        return !text.contains("\tat org.apache.rocketmq");
    }
}
