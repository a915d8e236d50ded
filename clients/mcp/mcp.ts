/** The command of `@understudy-gateway/mcp`: the MCP server without the service. Main thread of a separate process. */
import { realpathSync } from 'node:fs';
import { EXIT, openProcessIo, UsageError } from '../../src/cli/io.ts';
import { runMcpCommand } from '../../src/cli/mcp-command.ts';
import { readAgentConnection } from '../../src/config/agent-connection.ts';
import { ConfigError } from '../../src/config/config-error.ts';
import { exitProcess } from '../../src/std/loading-threads.ts';
import { quoteForShell } from '../../src/std/shell-word.ts';
import manifest from './package.json' with { type: 'json' };

const [, entry = '', ...argv] = process.argv;
const io = openProcessIo();
const status = await run();
// Output must be written before the process ends; an idle connection to the API must not delay that.
await io.out('');
exitProcess(status);

/** Runs the command. Reports wrong use and wrong settings on standard error. @returns the exit status */
async function run(): Promise<number> {
  const { version } = manifest;
  if (argv[0] === '--version' || argv[0] === '-v') {
    await io.out(`${version}\n`);
    return EXIT.done;
  }
  try {
    return await runMcpCommand(argv, io, {
      name: 'understudy-mcp',
      // The agent's client may start the command in any folder.
      line: [process.execPath, realpathSync(entry)].map(quoteForShell).join(' '),
      version,
      connect: (url) => readAgentConnection(url, process.env),
    });
  } catch (thrown) {
    if (!(thrown instanceof ConfigError || thrown instanceof UsageError)) throw thrown;
    const more = thrown instanceof UsageError ? 'See: understudy-mcp --help\n' : '';
    io.err(`understudy-mcp: ${thrown.message}\n${more}`);
    return thrown.exit_code;
  }
}
