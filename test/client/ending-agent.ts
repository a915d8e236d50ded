/**
 * An agent that ends as its arguments say: `ending-agent.ts WAY [URL]`. Without a URL it works without the client. Own
 * process.
 */
import { Understudy } from '../../src/client/understudy.ts';

const [way, baseUrl] = process.argv.slice(2);
const scope = (work: () => Promise<unknown>) => {
  if (baseUrl === undefined) return work();
  const understudy = new Understudy({
    apiKey: 'k',
    baseUrl,
    exitFlushMs: way === 'unanswered' ? 50 : 30_000,
  });
  return understudy.run({ runId: 'r' }, (run) => {
    run.step({ action: 'look' });
    return work();
  });
};
const fail = () => {
  throw new TypeError('it broke');
};

if (way === 'caught') process.on('uncaughtException', () => process.exit(7));
await scope(async () => {
  if (way === 'exit') process.exit(3);
  if (way === 'thrown') fail();
  setTimeout(way === 'rejection' ? async () => fail() : fail, 1);
  if (way !== 'survived') await new Promise(() => setInterval(() => {}, 60_000));
  process.on('uncaughtException', () => process.removeAllListeners('uncaughtException'));
  await new Promise((resolve) => process.once('uncaughtException', resolve));
}).catch((thrown: Error) => {
  console.error(thrown.name);
  process.exit(4);
});
