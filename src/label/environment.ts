/**
 * The environment variables of the labelling shim, read in the agent's own process. The variables of the service are in
 * src/config.ts. Any thread.
 */

interface LabelEnvironment {
  /** `SVC_HOSTS`: further host names whose requests are labelled, separated by commas or spaces. */
  hosts: string[];
  /** `SVC_RUN`: the run of the whole process, for `@understudy-gateway/client/label/auto`. */
  run: string | undefined;
}

/** Reads the variables. An empty variable counts as not set. */
export function readEnvironment(): LabelEnvironment {
  const { SVC_HOSTS = '', SVC_RUN } = process.env;
  return { hosts: SVC_HOSTS.split(/[\s,]+/).filter((host) => host !== ''), run: SVC_RUN || undefined };
}
