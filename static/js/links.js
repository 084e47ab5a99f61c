/** Where the pages of groups and clients are. Pure. */

export const groupHref = (group) => `/groups/${encodeURIComponent(group)}`;
export const clientHref = (client) => `/connections?client=${encodeURIComponent(client)}`;
