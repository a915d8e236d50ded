/**
 * The tools of `/mcp` and of `understudy mcp` in the real Claude Code and Codex, set up with the lines that README and
 * docs/mcp.md show.
 */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import { McpService } from '../fixtures/mcp-service.ts';
import { ClientHome } from './client-session.ts';
import { claudeCode, codex, type KnownClient } from './known-client.ts';

const command = fileURLToPath(new URL('../../src/cli/understudy.mjs', import.meta.url));
/** The package's command, which runs the sources here. */
const packaged = fileURLToPath(new URL('../../clients/mcp/understudy-mcp.mjs', import.meta.url));
const service = new McpService();
beforeAll(() => service.start());
afterAll(() => service[Symbol.asyncDispose]());

/** Lines of a document that call the client's `mcp add`. */
function linesFor(client: KnownClient, document: string): string[] {
  const program = client.name === 'codex' ? 'codex' : 'claude';
  const lines = readFileSync(new URL(`../../${document}`, import.meta.url), 'utf8').split('\n');
  return lines.filter((line) => line.startsWith(`${program} mcp add `));
}

/** Parses the line like a shell, with the address of this service. @returns the words after the client's own name */
function wordsOf(line: string): string[] {
  return line
    .replace(/\$SVC_API_KEY|svc_live_\.\.\./, service.key)
    .replace('http://127.0.0.1:8000', service.api.url)
    .replace('/opt/understudy/src/cli/understudy.mjs', command)
    .replace(' -- understudy-mcp ', ` -- ${packaged} `)
    .replace(' -- ', ` --env SVC_BASE_URL=${service.api.url} -- `)
    .match(/"[^"]*"|\S+/g)!
    .map((word) => word.replaceAll('"', ''))
    .slice(1);
}

/** A project that does not contain the package, like an agent's own project. */
function makeProject(): ClientHome {
  const home = new ClientHome();
  onTestFinished(() => home[Symbol.dispose]());
  return home;
}

for (const client of await Promise.all([claudeCode(), codex()])) {
  const lines = ['README.md', 'docs/mcp.md'].flatMap((document) => linesFor(client, document));
  it(`four lines configure ${client.name}`, () => expect(lines).toHaveLength(4));

  describe.skipIf(client.installed.entry === null)(`${client.name} ${client.installed.needed}`, () => {
    it.each(lines)('calls the tools by %s', async (line) => {
      const home = makeProject();
      const env = { SVC_API_KEY: service.key };
      expect(await client.run(home, wordsOf(line), env)).toMatchObject({ code: 0 });

      const codebase_id = 'owner/name';
      const content = `Known by ${line}`;
      const asked: [tool: string, input: Record<string, string>][] = [
        ['record_finding', { content }],
        ['recall_findings', { query: content }],
      ];
      const { url, close, requests } = await startFakeProvider({
        script: ({ tools }) => {
          if (client.lacks('understudy', tools)) return { tool_calls: [client.shell('sleep 0.1')] };
          const [tool, input] = asked.shift() ?? [];
          return tool === undefined
            ? { text: 'It is here.' }
            : { tool_calls: [client.mcpTool('understudy', tool, { codebase_id, ...input })] };
        },
      });
      onTestFinished(() => close());
      expect(await client.ask(home, 'Where is it?', url, env)).toMatchObject({
        code: 0,
        answer: 'It is here.',
      });
      // The finding in the service, and the finding in the model's request, are the same.
      const path = `/v1/findings/${encodeURIComponent(codebase_id)}/recall`;
      const { body } = await service.api.post(
        path,
        { query: content },
        { authorization: `Bearer ${service.key}` },
      );
      const found = body.findings.find((finding: { content: string }) => finding.content === content);
      expect(found).toBeDefined();
      expect(requests.at(-1)!.body.toString()).toContain(found.finding_id);
    });
  });
}
