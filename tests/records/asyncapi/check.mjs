// Reads a list of AsyncAPI documents (JSON) from the standard input with AsyncAPI's own parser. Prints for each what the
// parser finds, and the messages that it read.
import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";

const parser = new Parser();
const found = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  const { document, diagnostics } = await parser.parse(text);
  found.push({
    diagnostics: diagnostics.map(({ code, message, path, severity }) => ({ code, message, path, severity })),
    messages: document ? document.messages().all().map((message) => message.id()) : [],
  });
}
console.log(JSON.stringify(found));
