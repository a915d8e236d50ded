/**
 * `npm run eval -- <what>`: measures the rules and models of the product, on data outside the repository or with
 * synthetic agents.
 * - `monitors [file]`: the six run monitors over ../shared/agent-runs
 * - `retrieval`: the embedding model over ../shared/retrieval
 * - `relegation`: the student with held-back agents live (alone with --held-back; without a gateway with --held-back
 *   --offline), with synthetic agents compared with caches, and with public trajectories
 * - `trajectories [file]`: only the public trajectories
 * - `bound`: how many of the forms of answers that the student serves are wrong more often than promised
 */

const WHAT = ['monitors', 'retrieval', 'relegation', 'trajectories', 'bound'] as const;

const [what, ...rest] = process.argv.slice(2);
if (what === 'monitors') {
  const { evaluateMonitors } = await import('./monitors.ts');
  evaluateMonitors(rest[0]);
} else if (what === 'retrieval') {
  // Imported only if it is needed, because it loads the embedding runtime.
  const { evaluateRetrieval } = await import('./retrieval.ts');
  await evaluateRetrieval(...rest);
} else if (what === 'relegation') {
  const { evaluateRelegation } = await import('./relegation.ts');
  await evaluateRelegation(...rest);
} else if (what === 'trajectories') {
  const { evaluateTrajectories } = await import('./trajectories.ts');
  evaluateTrajectories(rest[0]);
} else if (what === 'bound') {
  const { evaluateBound } = await import('./bound.ts');
  evaluateBound(...rest);
} else {
  console.error(`usage: npm run eval -- ${WHAT.join(' | ')}`);
  process.exitCode = 2;
}
