/**
 * Runs simulations from the command line: `npm run sim -- --seed N [--steps M] [--runs R] [--boxes B]`. Without a seed
 * it draws one, and counts up from it. Without a number of boxes, the seed decides: one to three. It prints the seed of
 * a failure and the events before it.
 */
import { parseArgs } from 'node:util';
import { simulate } from './simulation.ts';
import { SimulationFailure } from './world.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    steps: { type: 'string' },
    runs: { type: 'string' },
    boxes: { type: 'string' },
  },
});
const steps = readNumber(values.steps, 600);
const first = readNumber(values.seed, Math.floor(Math.random() * 2 ** 31));
const runs = readNumber(values.runs, values.seed === undefined ? 20 : 1);

for (let seed = first; seed < first + runs; seed++) {
  const boxes = Math.max(1, readNumber(values.boxes, 1 + (seed % 3)));
  try {
    const result = await simulate({ seed, steps, boxes });
    console.log(
      `seed ${seed}: ${boxes} boxes, ${result.asked} asks, ${result.acknowledged} answered, ${result.handled} messages handled, ` +
        `${result.durable} operations durable, ${result.crashes} crashes, ` +
        `${Math.round(result.simulated_ms)} ms simulated, trace ${result.lines} ${result.hash.slice(0, 16)}`,
    );
  } catch (thrown) {
    if (!(thrown instanceof SimulationFailure)) throw thrown;
    console.error(thrown.trail.join('\n'));
    console.error(
      `\n${thrown.message}\nagain with: npm run sim -- --seed ${seed} --steps ${steps} --boxes ${boxes}`,
    );
    process.exitCode = 1;
    break;
  }
}

function readNumber(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= 0) return number;
  console.error(`not a whole number: ${text}`);
  process.exit(2);
}
