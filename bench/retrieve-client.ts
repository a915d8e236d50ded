/** Imports synthetic patterns and retrieves them, for suites that measure retrieval. In the process of a suite. */
import { createPrng, type Prng } from '../src/std/prng.ts';
import { JsonLine } from './json-line.ts';
import type { Samples } from './quantiles.ts';

/** Sends JSON over connections that are kept for one call. */
export class RetrieveClient {
  readonly #port: number;
  /** Number of retrievals that found patterns. */
  found = 0;

  constructor(port: number) {
    this.#port = port;
  }

  async import(patterns: readonly object[], org_id: string): Promise<void> {
    const line = await JsonLine.open(this.#port);
    await line.post('/v1/patterns', { org_id, tier: 'e2', patterns });
    line.close();
  }

  /** Makes this many retrievals over this many connections, and measures each in microseconds. */
  async repeat(
    count: number,
    connections: number,
    samples: Samples,
    make: (n: number) => string,
  ): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      const line = await JsonLine.open(this.#port);
      while (next < count) {
        const context = make(next++);
        const startedMs = performance.now();
        const answer = await line.post('/v1/traces/retrieve', { org_id: 'bench', context });
        samples.add((performance.now() - startedMs) * 1_000);
        if ((answer as { traces: unknown[] }).traces.length > 0) this.found++;
      }
      line.close();
    };
    await Promise.all(Array.from({ length: connections }, work));
  }
}

const TASKS =
  'migrate the schema of|write integration tests for|fix the flaky test of|add pagination to|cache the answers of|upgrade the dependencies of|containerise|profile the start of|add retries to|translate the messages of|remove dead code from|rate-limit|stream uploads to|sign the requests of|deduplicate the rows of|parallelise the build of|lint and format|document the API of|shard the index of|roll back the release of|encrypt the backups of|trace the requests of|validate the input of|paginate the export of'.split(
    '|',
  );
const THINGS =
  'the billing service|the invoice parser|a Rails monolith|the React dashboard|the ingestion worker|a Go gRPC gateway|the mobile login screen|the search cluster|a Terraform module|the message queue consumer|the nightly report job|a Rust command-line tool|the payment webhook|the recommendation model|an Airflow pipeline|the image resizer|the chat websocket server|a Django admin page|the feature flag client|the audit log|the warehouse loader|a Kotlin library|the email templates|the map tiles renderer|the session store|the license checker|the CSV importer|the calendar sync|a Spark job|the firmware updater'.split(
    '|',
  );
const FAILURES =
  'the connection is refused|a deadlock is reported|the snapshot differs|a null pointer appears|the certificate has expired|memory runs out|the port is taken|permissions are denied|the checksum does not match|a type error stops the build|the lock file conflicts|the clock is skewed|the query times out|the cache serves old data|a circular import fails|the disk is full|unicode is mangled|the token is rejected|the migration runs twice|the container exits at once|the test order matters|a race loses updates|the regex never ends|the proxy strips a header|the version is not found|the environment variable is empty'.split(
    '|',
  );
const MOMENTS =
  'on the second run|behind the corporate proxy|only in CI|after the merge|under load|with an empty database|on Windows|when two workers start|after midnight UTC|with the new compiler|in the staging cluster|when the file is large|for anonymous users|after a cold start|with IPv6|on ARM machines|when the network is slow|during the rolling deploy|for the oldest customers|with strict mode on'.split(
    '|',
  );
const ATTEMPTS =
  'the agent had cleared the cache|the agent had pinned an older release|the agent kept rerunning the suite|the agent had rewritten the config|the agent suspected the driver|the agent raised every timeout|the agent mocked the clock|the agent disabled the check|the agent searched the vendor code|the agent split the job|the agent blamed the fixtures|the agent reinstalled everything|the agent added logging|the agent bisected the commits|the agent reordered the imports'.split(
    '|',
  );

/**
 * Makes situations from parts, each situation with a name that is drawn at random. Also makes tasks that resemble the
 * task of a situation.
 */
export class Situations {
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  situation(n: number): string {
    const prng = createPrng(this.#seed * 1_000_003 + n);
    const name = `${SYLLABLES[prng.below(40)]}${SYLLABLES[prng.below(40)]}${SYLLABLES[prng.below(40)]}`;
    return `Asked to ${pick(prng, TASKS)} ${pick(prng, THINGS)} (${name}): ${pick(prng, FAILURES)} ${pick(prng, MOMENTS)}, and ${pick(prng, ATTEMPTS)}.`;
  }

  task(n: number): string {
    const prng = createPrng(this.#seed * 7_000_003 + 500_000_000 + n);
    return `${pick(prng, TASKS)} ${pick(prng, THINGS)}; at present ${pick(prng, FAILURES)} ${pick(prng, MOMENTS)}`;
  }
}

const SYLLABLES =
  'ba be bo bu da de di do fa fe fi go ga gu ha he hi ka ki ko la le lo lu ma me mi na ne no pa pe po ra re ri sa se ta te'.split(
    ' ',
  );

function pick(prng: Prng, list: readonly string[]): string {
  return list[prng.below(list.length)]!;
}
