// What the key of this page may do, so that nothing is offered that would be refused.

import { ask } from "./api.js";

/** The caller: `maySubmit`, and `member` where it may submit for one alone. */
export async function me(signal) {
  const caller = await ask("/v1/me", { signal });
  return { maySubmit: caller.scope !== "read", member: caller.member };
}
